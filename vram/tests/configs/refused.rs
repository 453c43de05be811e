//! Files that are no configuration: each error names the field, and nothing panics.

use super::*;

/// Fields that none of the families can do without.
const NEEDED: [&str; 5] = [
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
];

#[test]
fn a_missing_field_is_named() {
    for config in [
        llama_3_1_8b(),
        qwen_2_5_7b(),
        mistral_7b_v0_3(),
        qwen3_4b(),
        phi_3_mini_4k(),
        mixtral_8x7b(),
    ] {
        for field in NEEDED {
            let error = Architecture::from_value(&without(&config, field)).unwrap_err();
            assert_eq!(
                (error.field.as_str(), error.message.as_str()),
                (field, "missing"),
                "{config}"
            );
            // Null is as good as missing.
            assert_eq!(refused(&set(&config, field, Value::Null)), field);
        }
    }
    let gemma = gemma_2_2b();
    for field in &NEEDED[..4] {
        assert_eq!(refused(&without(&gemma, field)), *field);
    }
    for field in ["hidden_size", "intermediate_size", "num_hidden_layers"] {
        let mut config = gemma_3_4b();
        config["text_config"].as_object_mut().unwrap().remove(field);
        assert_eq!(refused(&config), format!("text_config.{field}"));
        let mut config = gemma_3_4b();
        config["vision_config"]
            .as_object_mut()
            .unwrap()
            .remove(field);
        assert_eq!(refused(&config), format!("vision_config.{field}"));
    }
    let mut mixture = without(&qwen3_30b_a3b(), "moe_intermediate_size");
    assert!(Architecture::from_value(&mixture).is_ok());
    mixture.as_object_mut().unwrap().remove("intermediate_size");
    assert_eq!(refused(&mixture), "intermediate_size");
}

/// What no field may be.
fn nonsense() -> Vec<Value> {
    vec![
        json!(0),
        json!(-1),
        json!(i64::MIN),
        json!(1_u64 << 63),
        json!(u64::MAX),
        json!(1e300),
        json!(12.5),
        json!(4096.0),
        json!("4096"),
        json!(""),
        json!(true),
        json!([4096]),
        json!({"value": 4096}),
        json!("9".repeat(1 << 20)),
        json!(vec![0; 1 << 16]),
    ]
}

#[test]
fn a_field_that_is_no_count_is_named() {
    let numbers = [
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "vocab_size",
        "sliding_window",
        "sliding_window_pattern",
    ];
    for field in numbers {
        for value in nonsense() {
            assert_eq!(refused(&set(&gemma_2_2b(), field, value.clone())), field);
            let config = gemma_3_4b();
            let text = set(&config["text_config"], field, value);
            assert_eq!(
                refused(&set(&config, "text_config", text)),
                format!("text_config.{field}")
            );
        }
    }
    for field in [
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "image_size",
        "patch_size",
    ] {
        for value in nonsense() {
            let config = with(&gemma_3_4b(), &format!("/vision_config/{field}"), value);
            assert_eq!(refused(&config), format!("vision_config.{field}"));
        }
    }
    for (config, field) in [
        (mixtral_8x7b(), "num_local_experts"),
        (qwen3_30b_a3b(), "num_experts"),
        (qwen3_30b_a3b(), "moe_intermediate_size"),
        (qwen1_5_moe(), "shared_expert_intermediate_size"),
    ] {
        // Zero is none, where a family has dense members.
        for value in nonsense().into_iter().skip(1) {
            assert_eq!(refused(&set(&config, field, value)), field);
        }
    }
}

#[test]
fn a_field_of_another_type_is_named() {
    let llama = llama_3_1_8b();
    for value in [json!(1), json!([]), json!({}), json!(false)] {
        assert_eq!(
            refused(&set(&llama, "model_type", value.clone())),
            "model_type"
        );
        if !value.is_boolean() {
            assert_eq!(
                refused(&set(&llama, "tie_word_embeddings", value.clone())),
                "tie_word_embeddings"
            );
            assert_eq!(
                refused(&set(&llama, "use_sliding_window", value.clone())),
                "use_sliding_window"
            );
        }
        for part in ["text_config", "vision_config"] {
            if !value.is_object() {
                assert_eq!(refused(&set(&gemma_3_4b(), part, value.clone())), part);
            }
        }
        assert_eq!(
            refused(&set(&gemma_3_1b(), "layer_types", value.clone())),
            "layer_types"
        );
        let nested = with(&gemma_3_4b(), "/text_config/model_type", value);
        assert_eq!(refused(&nested), "text_config.model_type");
    }
    for types in [
        json!(["full_attention"]),
        json!([1, 2]),
        json!(vec![Value::Null; 26]),
    ] {
        assert_eq!(
            refused(&set(&gemma_3_1b(), "layer_types", types)),
            "layer_types"
        );
    }
    let window = set(&qwen_2_5_7b(), "use_sliding_window", json!(true));
    for value in [json!(-1), json!("28"), json!(1.5), json!([])] {
        assert_eq!(
            refused(&set(&window, "max_window_layers", value)),
            "max_window_layers"
        );
    }
}

#[test]
fn numbers_that_do_not_go_together_are_named() {
    let llama = llama_3_1_8b();
    for (field, value) in [
        // More key-value heads than heads, heads that they do not divide, more heads than the model is wide.
        ("num_key_value_heads", 64),
        ("num_key_value_heads", 3),
        ("num_attention_heads", 24),
        ("num_hidden_layers", 1001),
        ("num_hidden_layers", 1_000_000_000),
        ("hidden_size", 1 << 30),
        ("vocab_size", 1 << 30),
        ("head_dim", 1 << 30),
        ("num_attention_heads", 1 << 30),
    ] {
        assert_eq!(refused(&set(&llama, field, json!(value))), field, "{value}");
    }
    let narrow = json!({"hidden_size": 2, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4,
        "vocab_size": 8});
    assert_eq!(refused(&narrow), "num_attention_heads");
    let patches = with(&gemma_3_4b(), "/vision_config/patch_size", json!(897));
    assert_eq!(refused(&patches), "vision_config.patch_size");
    // Each of them could be, not all of them together.
    let wide = json!({"hidden_size": 1 << 17, "intermediate_size": 1 << 20, "num_hidden_layers": 1000,
        "num_attention_heads": 1 << 12, "head_dim": 1 << 12, "vocab_size": 1 << 24});
    assert_eq!(refused(&wide), "num_attention_heads");
    let mixture = set(
        &with(&wide, "/head_dim", json!(1)),
        "num_experts",
        json!(1 << 14),
    );
    assert_eq!(refused(&mixture), "num_experts");
}

#[test]
fn text_that_is_no_configuration_is_refused() {
    let field = |text: &str| match Architecture::read(text.as_bytes()) {
        Ok(read) => panic!("{text} was read as {read:?}"),
        Err(error) => (error.field.clone(), error.to_string()),
    };
    for text in [
        "",
        " ",
        "[]",
        "null",
        "3",
        "\"config\"",
        "{",
        "\u{feff}{}",
        "{} {}",
        "not json",
    ] {
        assert_eq!(field(text).0, "(whole file)", "{text}");
    }
    // What Python writes and JSON does not have; numbers beyond any type; text that stops.
    for (value, said) in [
        ("NaN", "not JSON"),
        ("Infinity", "not JSON"),
        ("-Infinity", "not JSON"),
        ("1e999", "not JSON"),
        ("0x10", "not JSON"),
        ("4096,}", "not JSON"),
        ("", "not JSON"),
        ("\"\u{1}\"", "not JSON"),
        ("123456789012345678901234567890", "expected a whole number"),
        ("-0", "expected a whole number"),
    ] {
        let text = format!("{{\"model_type\": \"llama\", \"hidden_size\": {value}");
        let text = if value.is_empty() { text } else { text + "}" };
        let (name, message) = field(&text);
        let name = if value.ends_with('}') {
            "hidden_size"
        } else {
            &name
        };
        assert_eq!(name, "hidden_size", "{message}");
        assert!(message.contains(said), "{message}");
    }
    let (name, message) = field("{\"text_config\": {\"hidden_size\": NaN}}");
    assert_eq!(name, "text_config.hidden_size", "{message}");
    // Two of one name: which one counts?
    let (name, message) =
        field("{\"hidden_size\": 64, \"num_hidden_layers\": 2, \"hidden_size\": 4096}");
    assert_eq!(name, "hidden_size");
    assert!(message.contains("there twice"), "{message}");
    // Bytes that are no text.
    let error = Architecture::read(b"{\"model_type\": \"\xff\xfe\"}").unwrap_err();
    assert_eq!(error.field, "model_type");
    // Deeper than anything that means something.
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!(
            "{{\"rope_scaling\": {}1{}}}",
            open.repeat(100_000),
            close.repeat(100_000)
        );
        let (name, message) = field(&deep);
        assert!(name.starts_with("rope_scaling"), "{name}");
        assert!(message.contains("recursion limit"));
    }
}

#[test]
fn a_hundred_megabytes_are_refused_at_once() {
    let mut text = llama_3_1_8b().to_string().into_bytes();
    text.resize(100 << 20, b' ');
    let error = Architecture::read(&text).unwrap_err();
    assert_eq!(error.field, "(whole file)");
    assert!(error.message.contains("longer than 4 MiB"), "{error}");
    text.truncate(LONGEST_CONFIG);
    assert!(Architecture::read(&text).is_ok());
    // The largest that is let through, all of it one list.
    let list = format!(
        "{{\"rope\": [{}1]}}",
        "1,".repeat((LONGEST_CONFIG - 20) / 2)
    );
    assert_eq!(
        Architecture::read(list.as_bytes()).unwrap_err().field,
        "hidden_size"
    );
}

/// A bad configuration inside a recipe names both.
#[test]
fn a_recipe_with_a_bad_configuration_names_it() {
    let settings: Settings = serde_json::from_value(json!({
        "model": "m", "model_config": set(&llama_3_1_8b(), "hidden_size", json!("wide")),
    }))
    .unwrap();
    let error = Workload::new(Mode::Train, &settings, None).unwrap_err();
    assert_eq!(error.key, "model_config");
    assert!(error.message.contains("`hidden_size`"), "{error}");
}

#[test]
fn every_name_of_the_registry_is_found() {
    for name in known_models() {
        assert!(known_model(name).is_some(), "{name}");
        assert!(
            known_model(&format!("somebody/{}", name.to_uppercase())).is_some(),
            "{name}"
        );
    }
    for name in ["", "/", "gemma", "-4bit", "gemma-3-4b-it/", "x/y/z"] {
        assert!(known_model(name).is_none(), "{name}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0u64..100).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z_]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{0,12}", inner, 0..6).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_stands_in_a_field_nothing_panics(config in 0usize..9, field in any::<prop::sample::Index>(), value in any_json(), nested: bool) {
        let configs = [qwen_2_5_7b(), mistral_7b_v0_1(), gemma_2_2b(), gemma_3_4b(), gemma_3_1b(), phi_3_mini_4k(),
            smollm3_3b(), gpt_oss_20b(), qwen1_5_moe()];
        let mut config = configs[config].clone();
        let part = if nested && config.get("text_config").is_some() { &mut config["text_config"] } else { &mut config };
        let names: Vec<String> = part.as_object().unwrap().keys().cloned().collect();
        part[&names[field.index(names.len())]] = value;
        if let Ok(read) = Architecture::from_value(&config) {
            prop_assert!(read.linear_parameters().checked_add(read.embedding_parameters()).is_some());
            prop_assert!(read.heads >= read.kv_heads && read.kv_heads > 0 && read.head_dim > 0);
            // And what is read can be asked about.
            need(&config, json!({"seq_len": 64, "memory_fixes": ["chunked_mlp"]}));
        }
        // (The text of a small number is not always read as the same number.)
        let field = |read: Result<Architecture, vram::ArchitectureError>| read.map_err(|error| error.field);
        let from_text = Architecture::read(config.to_string().as_bytes());
        prop_assert_eq!(field(from_text), field(Architecture::from_value(&config)));
    }

    #[test]
    fn whatever_the_bytes_nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in any::<prop::sample::Index>()) {
        prop_assert!(Architecture::read(&bytes).is_err());
        let text = gemma_3_4b().to_string();
        let cut = &text.as_bytes()[..cut.index(text.len())];
        prop_assert!(Architecture::read(cut).is_err());
    }

    #[test]
    fn any_value_is_read_or_refused_by_a_field(value in any_json()) {
        if let Err(error) = Architecture::from_value(&value) {
            prop_assert!(!error.field.is_empty());
        }
    }
}
