//! What a command said: exit code, standard output, standard error.

use serde_json::Value;

#[derive(Debug)]
pub struct Said {
    /// What was asked, for messages.
    pub words: String,
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    /// The command must have ended with this code.
    #[track_caller]
    pub fn code(&self, wanted: i32) -> &Self {
        let Self {
            words,
            code,
            out,
            err,
        } = self;
        assert_eq!(
            *code,
            Some(wanted),
            "exit code of `sweep {words}`\n-- out\n{out}\n-- err\n{err}"
        );
        self
    }

    /// It must have succeeded, with one JSON document on its standard output.
    #[track_caller]
    pub fn json(&self) -> Value {
        self.code(0).document()
    }

    /// The one JSON document on its standard output, whatever the code.
    #[track_caller]
    pub fn document(&self) -> Value {
        let Self {
            words, out, err, ..
        } = self;
        serde_json::from_str(out).unwrap_or_else(|error| {
            panic!("`sweep {words}` printed no JSON: {error}\n-- out\n{out}\n-- err\n{err}")
        })
    }

    /// The error must say each of these.
    #[track_caller]
    pub fn says(&self, parts: &[&str]) -> &Self {
        let Self { words, err, .. } = self;
        for part in parts {
            assert!(
                err.contains(part),
                "`sweep {words}` does not say `{part}`\n-- err\n{err}"
            );
        }
        self
    }

    /// Its standard output has these, however its lines are broken.
    #[track_caller]
    pub fn shows(&self, parts: &[&str]) -> &Self {
        let Self { words, out, .. } = self;
        let flat = out.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in parts {
            assert!(
                flat.contains(part),
                "`sweep {words}` does not show `{part}`\n-- out\n{out}"
            );
        }
        self
    }

    /// The only word of its standard output, such as the id that `submit` prints.
    #[track_caller]
    pub fn word(&self) -> String {
        let words: Vec<&str> = self.code(0).out.split_whitespace().collect();
        assert_eq!(
            words.len(),
            1,
            "`sweep {}` printed {:?}",
            self.words,
            self.out
        );
        words[0].to_owned()
    }
}
