"""Stand-ins for the CUDA libraries that PyTorch is linked with, so that it can be imported where they are not.

usage: cuda_stand_ins.py SITE-PACKAGES

PyTorch's Linux wheel cannot be loaded without cuBLAS, cuDNN, NCCL and others: 1.9 GB to download, of which a rehearsal
calls no function. Each one that is absent gets a stand-in that holds the names which PyTorch's own libraries ask for; a
call of any of them ends the process with a line that says so. The CUDA runtime must be the real one (2 MB): PyTorch's
libraries register themselves with it while they are loaded.
Refuses to stand in for a library that is there, for the driver's, and for any that is not CUDA's. Needs cc and readelf.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

CUDA = re.compile(r"lib(cu|nv|nccl)\w*\.so\.\d+")
NOT_OURS = ("libcuda.so.1", "libcudart.so.13", "libcudart.so.12")
#: These libraries give their names no version, so one cannot tell whose a name is: each gets them all.
UNVERSIONED = re.compile(r"(nccl|cusparseLt|cuFile)[A-Z]\w*")

STOP = """
#include <stdio.h>
#include <stdlib.h>
static void stop(const char *name) {
  fprintf(stderr, "%s was called: this environment has no CUDA libraries, it can only rehearse (jobs/kit/setup cpu)\\n", name);
  abort();
}
#define STANDS(name) __attribute__((visibility("default"))) void name(void) { stop(#name); }
"""


def read(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def needed_by(libraries):
    return {name for path in libraries
            for name in re.findall(r"\(NEEDED\).*\[(.*)\]", read("readelf", "--dynamic", "--wide", path))}


def asked_of(libraries):
    """({library: the versions it must name}, {library: functions asked of it}, functions without a version)."""
    versions, functions, loose = collections.defaultdict(set), collections.defaultdict(set), set()
    for path in libraries:
        owner, library = {}, None
        for line in read("readelf", "--version-info", "--wide", path).splitlines():
            if found := re.search(r"File: (\S+)", line):
                library = found[1]
            elif library and (found := re.search(r"Name: (\S+)\s+Flags: \S+\s+Version: (\d+)", line)):
                owner[found[2]] = library
                versions[library].add(found[1])
        for line in read("readelf", "--dyn-syms", "--wide", path).splitlines():
            found = re.search(r" UND (\w+)(?:@\S+ \((\d+)\))?$", line)
            if found and found[2]:
                functions[owner[found[2]]].add(found[1])
            elif found and UNVERSIONED.fullmatch(found[1]):
                loose.add(found[1])
    return versions, functions, loose


def make(path, versions, functions):
    """The loader wants a version's name wherever the caller was linked with one."""
    with tempfile.TemporaryDirectory() as folder:
        source, script = pathlib.Path(folder, "all.c"), pathlib.Path(folder, "versions")
        source.write_text(STOP + "".join(f"STANDS({name})\n" for name in sorted(functions)), encoding="utf-8")
        command = ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{path.name}", "-o", path, source]
        if versions:
            script.write_text("".join(f"{name} {{ global: *; }};\n" for name in sorted(versions)), encoding="utf-8")
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)


def main():
    site = pathlib.Path(sys.argv[1])
    lib = site / "torch" / "lib"
    ours = sorted(lib.glob("*.so"))
    there = {path.name for path in [*lib.iterdir(), *site.glob("nvidia/*/lib/*")]}
    absent = [name for name in sorted(needed_by(ours) - there) if CUDA.fullmatch(name) and name not in NOT_OURS]
    versions, functions, loose = asked_of(ours)
    for name in absent:
        make(lib / name, versions.get(name), functions.get(name) or loose)
    print(f"stand-ins for {len(absent)} CUDA libraries" if absent else "no stand-ins are needed")


if __name__ == "__main__":
    main()
