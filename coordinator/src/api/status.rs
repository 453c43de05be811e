//! The one table from refusals and store errors to what goes over the wire. Texts stay short: a status travels in
//! headers, and a long one breaks the stream.

use tonic::{Code, Status};

use crate::engine::Refusal;
use crate::store::StoreError;

const TEXT_MAX: usize = 8 * 1024;

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::Invalid(_) => Code::InvalidArgument,
            Refusal::NotFound(_) => Code::NotFound,
            Refusal::Refused(_) => Code::FailedPrecondition,
            Refusal::Stopped(_) => Code::Unavailable,
            Refusal::DiskFull(_) => Code::ResourceExhausted,
        };
        Self::new(code, shortened(refusal.to_string()))
    }
}

/// Of a read: the request was right, the store could not answer.
pub fn of_store(error: &StoreError) -> Status {
    let code = match error {
        StoreError::DiskFull { .. } => Code::ResourceExhausted,
        _ => Code::Internal,
    };
    Status::new(code, shortened(format!("the store failed to {error}")))
}

fn shortened(mut text: String) -> String {
    if text.len() > TEXT_MAX {
        let end = (0..=TEXT_MAX)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text.truncate(end);
        text.push_str(" ... (shortened)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_on_a_character() {
        let text = shortened("ä".repeat(TEXT_MAX));
        assert!(text.len() < TEXT_MAX + 20 && text.ends_with("(shortened)"));
        let status = Status::from(Refusal::NotFound("no".into()));
        assert_eq!(status.code(), Code::NotFound);
    }
}
