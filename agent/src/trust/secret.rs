//! A token in a file. Refuses one that other users of this machine may read: it is theirs already.

use std::fs;
use std::path::Path;

use proto::token::Token;

use super::TrustError;
use crate::os;

pub fn read_token(path: &Path) -> Result<Token, TrustError> {
    let wrong = |why: String| TrustError::File {
        path: path.to_owned(),
        why,
    };
    if os::others_may_read(path).map_err(|error| wrong(error.to_string()))? {
        return Err(wrong(
            "others may read it, so its token is no secret; make it yours alone (chmod 600), and rotate the token".into(),
        ));
    }
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    Token::parse(&text).map_err(|error| wrong(error.to_string()))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn a_token_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = Token::new([1; 32], [2; 32]);
        fs::write(&path, token.text().expose_secret()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = read_token(&path).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read_token(&path).unwrap().pin(), [2; 32]);
        fs::write(&path, "hunter2").unwrap();
        let error = read_token(&path).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
