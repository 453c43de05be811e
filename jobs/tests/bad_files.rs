//! Every broken sweep file of `tests/bad` against its expected message, to the letter.
//! `SWEEP_BLESS=1 cargo test -p jobs --test bad_files` writes the messages anew; read the difference before keeping it.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::path::{Path, PathBuf};

use jobs::plan::load;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/bad")
}

fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).unwrap();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect();
    files.sort();
    files
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn every_bad_file_gets_its_message() {
    let bless = std::env::var_os("SWEEP_BLESS").is_some();
    let files = files();
    assert!(files.len() >= 40, "only {} files", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let name = file_name(&path);
        let Err(errors) = load(&name, &fs::read(&path).unwrap()) else {
            wrong.push(format!("{name} was accepted"));
            continue;
        };
        let found = format!("{errors}\n");
        let expected_path = path.with_extension("expected");
        if bless {
            fs::write(&expected_path, &found).unwrap();
        }
        let expected = fs::read_to_string(&expected_path).unwrap_or_default();
        if found != expected {
            wrong.push(format!(
                "{name}\n--- expected\n{expected}--- found\n{found}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_message_has_its_place_and_something_to_do() {
    for path in files() {
        let name = file_name(&path);
        let text = fs::read(&path).unwrap();
        let errors = load(&name, &text).unwrap_err();
        assert!(!errors.items().is_empty(), "{name}");
        for item in errors.items() {
            assert_eq!(item.file, name);
            assert!(item.line >= 1 && item.column >= 1, "{name}: {item:?}");
            assert!(
                item.line <= text.split(|byte| *byte == b'\n').count(),
                "{name}: {item:?}"
            );
            let place = format!("{name}:{}:{}", item.line, item.column);
            let whole_file = (item.line, item.column) == (1, 1);
            assert!(
                whole_file || errors.to_string().contains(&place),
                "{name}: {item:?}"
            );
            assert!(!item.message.ends_with('.'), "{name}: {}", item.message);
        }
    }
}

#[test]
fn errors_are_json_with_stable_fields() {
    let errors = load("x.toml", b"[sweep]\nnmae = \"t\"\n[train]\nrun = [\"x\"]\n").unwrap_err();
    let json = serde_json::to_value(&errors).unwrap();
    let unknown = &json[0];
    assert_eq!(unknown["file"], "x.toml");
    assert_eq!(
        (&unknown["line"], &unknown["column"]),
        (&2.into(), &1.into())
    );
    assert_eq!(unknown["message"], "unknown key `nmae` in [sweep]");
    assert_eq!(unknown["help"], "did you mean `name`?");
}

#[test]
fn a_file_that_is_too_large_is_refused_unread() {
    let text = vec![b'#'; (1 << 20) + 1];
    let errors = load("x.toml", &text).unwrap_err().to_string();
    assert!(errors.contains("the file has 1048577 bytes"), "{errors}");
}

#[test]
fn colour_is_only_added() {
    let errors = load("x.toml", b"[sweep]\nnmae = \"t\"\n").unwrap_err();
    let coloured = errors.render(true);
    assert!(coloured.contains("\u{1b}["));
    assert!(!errors.render(false).contains('\u{1b}'));
}
