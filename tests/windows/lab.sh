# Where the set-up for Windows lies and the words with which its tools are called. To be sourced, by scripts of this
# folder. Sets nothing up and starts nothing; the machine's own Rust stays as it is.

LAB=${SWEEP_WINDOWS_LAB:-/var/tmp/sweep-windows}
SYSROOT=$LAB/sysroot/usr
TARGET=x86_64-pc-windows-gnu
EXE=$LAB/target/$TARGET/debug/sweep.exe

# Debian's rustc 1.96 with its cargo, apart from any Rust that the machine has.
web_cargo() {
  env -u RUSTUP_TOOLCHAIN -u RUSTFLAGS \
    LD_LIBRARY_PATH="$SYSROOT/lib/x86_64-linux-gnu" RUSTC="$SYSROOT/bin/rustc" RUSTDOC="$SYSROOT/bin/rustdoc" \
    CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc \
    "$SYSROOT/bin/cargo" "$@"
}

# The workspace for Windows: without line tables, as nobody debugs there and linking them takes most of the time.
cross() { # cargo's verb, its arguments
  verb=$1 && shift
  CARGO_TARGET_DIR="$LAB/target" CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 \
    web_cargo "$verb" --locked --target "$TARGET" "$@"
}

# Headless, with a prefix of its own. Wine's own messages are left out.
export WINEPREFIX=$LAB/prefix WINEARCH=win64 WINEDEBUG=-all
export WINEDLLOVERRIDES="mscoree=;mshtml=;winemenubuilder.exe="
unset DISPLAY
PATH=/usr/lib/wine:$PATH # where Debian keeps wine64 and wineserver64

# A path of this machine as a Windows program says it: Wine's drive Z is `/`.
windows_path() { printf 'Z:%s' "${1//\//\\}"; }
