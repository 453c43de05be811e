//! JSON inside messages: text on the wire, JSON in a document.

use serde::ser::Error as _;
use serde::{Serialize, Serializer};

/// A field that a message carries as JSON text.
pub trait Embedded {
    fn text(&self) -> Option<&str>;
}

impl Embedded for String {
    fn text(&self) -> Option<&str> {
        (!self.is_empty()).then_some(self.as_str())
    }
}

impl Embedded for Option<String> {
    fn text(&self) -> Option<&str> {
        self.as_deref().filter(|text| !text.is_empty())
    }
}

/// Serializes the JSON that the field holds, not the text of it; nothing becomes null.
pub fn embedded<S: Serializer, F: Embedded>(field: &F, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(text) = field.text() else {
        return serializer.serialize_none();
    };
    let value: serde_json::Value = serde_json::from_str(text).map_err(S::Error::custom)?;
    value.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use crate::v1::TrialDocument;

    #[test]
    fn params_are_an_object_in_the_document() {
        let trial = TrialDocument {
            id: "a/1".into(),
            params: r#"{"rank":112,"lr":1e-5}"#.into(),
            ..TrialDocument::default()
        };
        let json = serde_json::to_value(&trial).expect("serializes");
        assert_eq!(json["params"]["rank"], 112);
        assert_eq!(json["outcome"], serde_json::Value::Null);
    }
}
