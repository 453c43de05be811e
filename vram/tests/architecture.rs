//! Reading a `config.json`: what is missing, absurd or not a configuration is refused by the name of its field.

use serde_json::{Value, json};
use vram::Architecture;

fn small() -> Value {
    json!({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 100})
}

#[test]
fn a_bad_field_is_named() {
    for (field, value) in [
        ("hidden_size", json!(-1)),
        ("hidden_size", json!("64")),
        ("num_hidden_layers", json!(0)),
        ("num_hidden_layers", json!(100_000)),
        ("vocab_size", json!(1e30)),
        ("intermediate_size", json!([1])),
        ("num_key_value_heads", json!(3)),
        ("tie_word_embeddings", json!("yes")),
        ("vision_config", json!(1)),
        ("text_config", json!(1)),
        ("model_type", json!(1)),
    ] {
        let mut config = small();
        config[field] = value.clone();
        let error = Architecture::from_value(&config).unwrap_err();
        assert_eq!(error.field, field, "{value}");
    }
    let mut config = small();
    config.as_object_mut().unwrap().remove("hidden_size");
    assert_eq!(
        Architecture::from_value(&config).unwrap_err().message,
        "missing"
    );
}

#[test]
fn a_file_that_is_no_configuration_is_refused() {
    assert!(Architecture::read(b"[").is_err());
    assert!(Architecture::read(b"[]").is_err());
    let long = vec![b' '; 100 << 20];
    assert!(
        Architecture::read(&long)
            .unwrap_err()
            .message
            .contains("longer")
    );
}

#[test]
fn head_dim_and_heads_have_defaults() {
    let read = Architecture::from_value(&small()).unwrap();
    assert_eq!((read.head_dim, read.kv_heads, read.tied), (16, 4, false));
}

#[test]
fn experts_are_counted_and_not_known() {
    let mut config = small();
    config["num_local_experts"] = json!(8);
    let read = Architecture::from_value(&config).unwrap();
    assert!(!read.family.is_known());
    assert_eq!(
        read.linear_parameters(),
        2 * (64 * (64 * 4) + 8 * 3 * 64 * 128)
    );
}

#[test]
fn mistral_has_a_window_unless_it_says_null() {
    let mut config = small();
    config["model_type"] = json!("mistral");
    assert_eq!(
        Architecture::from_value(&config).unwrap().sliding_window,
        Some(4096)
    );
    config["sliding_window"] = Value::Null;
    assert_eq!(
        Architecture::from_value(&config).unwrap().sliding_window,
        None
    );
}
