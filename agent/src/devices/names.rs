//! What people call the programs that hold a card's memory. A program that is not known here goes by its own name.
//! Nothing is decided by these names.

/// Without folders and `.exe`; known programs by what they are.
#[must_use]
pub fn friendly(program: &str) -> String {
    let file = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let file = file
        .strip_suffix(".exe")
        .or_else(|| file.strip_suffix(".EXE"))
        .unwrap_or(file);
    let low = file.to_ascii_lowercase();
    let kind = match low.as_str() {
        "ollama" | "ollama_llama_server" | "ollama-lib" => return "Ollama".to_owned(),
        "xorg" | "xwayland" | "gnome-shell" | "kwin_wayland" | "kwin_x11" | "plasmashell"
        | "cinnamon" | "sway" | "hyprland" | "weston" | "gdm-x-session" | "dwm" | "explorer" => {
            "desktop"
        }
        "firefox" | "firefox-bin" | "chrome" | "chromium" | "msedge" | "brave" | "opera"
        | "vivaldi" | "librewolf" => "browser",
        _ => return file.to_owned(),
    };
    format!("{file} ({kind})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_programs_are_called_by_what_they_are_and_others_by_their_name() {
        for (program, said) in [
            ("/usr/local/bin/ollama", "Ollama"),
            ("/usr/lib/xorg/Xorg", "Xorg (desktop)"),
            (
                r"C:\Program Files\Mozilla Firefox\firefox.exe",
                "firefox (browser)",
            ),
            ("/home/me/games/factorio", "factorio"),
            ("python3.12", "python3.12"),
        ] {
            assert_eq!(friendly(program), said);
        }
    }
}
