//! Settings and rows that cannot be: errors that name them, and nothing that panics or runs over.

use super::*;

/// Settings that are read, with something that is right.
fn right() -> Vec<(&'static str, Value)> {
    vec![
        ("model", json!("qwen2.5-0.5b")),
        ("quant", json!("nf4")),
        ("targets", json!(["q_proj"])),
        ("rank", json!(8)),
        ("dropout", json!(0.1)),
        ("dora", json!(true)),
        ("batch", json!(2)),
        ("seq_len", json!(300)),
        ("response_len", json!(30)),
        ("context_len", json!(512)),
        ("double_quant", json!(false)),
        ("gradient_checkpointing", json!(true)),
        ("attention", json!("sdpa")),
        ("autocast", json!(true)),
        ("logits_freed_before_backward", json!(true)),
        ("mlp_chunk_tokens", json!(128)),
        ("loss_chunk_tokens", json!(128)),
        ("expandable_segments", json!(true)),
        ("memory_fixes", json!(["chunked_mlp", "chunked_loss"])),
        ("optimizer", json!("adamw_8bit")),
    ]
}

fn all_right() -> Settings {
    right()
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

#[test]
fn what_no_setting_can_be_is_an_error_that_names_it() {
    let counts = [
        "rank",
        "batch",
        "seq_len",
        "response_len",
        "context_len",
        "mlp_chunk_tokens",
        "loss_chunk_tokens",
    ];
    let no_count = [
        json!(0),
        json!(-1),
        json!(1_000_000_000),
        json!(u64::MAX),
        json!(1e300),
        json!(0.5),
        json!("8"),
        json!([8]),
        json!({"value": 8}),
        json!(true),
        json!("9".repeat(10 << 20)),
    ];
    let no_flag = [json!(0), json!("true"), json!([])];
    let no_name = [json!(1), json!("none of them"), json!([]), json!("")];
    let no_names = [json!(1), json!([1]), json!({"q_proj": true})];
    let no_share = [
        json!(1),
        json!(-0.1),
        json!("0.1"),
        json!(1e300),
        json!(true),
    ];
    let wrong = |key: &str| -> &[Value] {
        match key {
            key if counts.contains(&key) => &no_count,
            "dropout" => &no_share,
            "quant" | "attention" | "optimizer" => &no_name,
            "model" => &no_names,
            "targets" | "memory_fixes" => &no_names,
            _ => &no_flag,
        }
    };
    for (key, _) in right() {
        for value in wrong(key) {
            let mut settings = all_right();
            settings.insert(key.to_owned(), value.clone());
            for mode in [Mode::Train, Mode::Probe, Mode::Bake] {
                let error = Workload::new(mode, &settings, None).unwrap_err();
                assert_eq!(error.key, key);
                // However long what was given.
                let said = error.to_string();
                assert!(
                    said.contains(&format!("`{key}`")) && said.len() < 300,
                    "{said}"
                );
            }
        }
    }
    assert!(Workload::new(Mode::Train, &all_right(), None).is_ok());
}

#[test]
fn what_is_beyond_any_machine_is_left_open() {
    // Each is a setting that could be; together they are more than 64 bits would count.
    for changes in [
        json!({"seq_len": 100_000_000}),
        json!({"seq_len": 100_000_000, "batch": 100_000_000, "rank": 100_000_000}),
        json!({"batch": 100_000_000, "seq_len": 100_000}),
        json!({"rank": 100_000_000}),
        json!({"seq_len": 1_000_000, "mlp_chunk_tokens": 1}),
        json!({"seq_len": 50_000_000, "attention": "eager", "memory_fixes": []}),
    ] {
        let mut settings = all_right();
        settings.extend(self::settings(&changes));
        for mode in [Mode::Train, Mode::Probe] {
            let work = Workload::new(mode, &settings, None).unwrap();
            let class = class("NVIDIA H200");
            let load = DeviceLoad {
                usable: Bytes::from_mib(143_000.0),
                held: Bytes::ZERO,
            };
            let answer = predict(&work, &class, &load, &Knowledge::default());
            assert!(is_whole(&answer), "{changes}");
            // What can be counted is far too large; what cannot is not said to fit.
            let open = matches!(
                answer.verdict,
                VerdictKind::Uncertain | VerdictKind::TooLarge
            );
            assert!(open, "{changes}: {:?}", answer.verdict);
        }
    }
}

#[test]
fn what_an_adapter_elsewhere_costs_is_left_open() {
    // On the output matrix or the embedding, or where a pattern finds something: not only on layers of the blocks.
    let known = |targets: Value| {
        let mut settings = all_right();
        settings.insert("targets".into(), targets);
        let work = Workload::new(Mode::Train, &settings, None).unwrap();
        estimate(&work, &class("NVIDIA H200"), &Knowledge::default()).map(|known| known.allocated)
    };
    for targets in [
        json!(["q_proj", "lm_head"]),
        json!(["embed_tokens"]),
        json!(".*_proj"),
        json!("q_proj|v_proj"),
        json!(["self_attn.q_proj"]),
        json!(["model.layers.0.self_attn.q_proj"]),
    ] {
        assert_eq!(known(targets.clone()), None, "{targets}");
    }
    // A name that this model has none of adapts nothing.
    assert_eq!(known(json!(["q_proj", "c_attn"])), known(json!(["q_proj"])));
    assert_eq!(known(json!("all-linear")), known(json!(ALL_LINEAR)));
    let row = json!({"model_config": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 100}, "seq_len": 8, "rank": 8, "targets": ["lm_head"], "limit_mib": 9.0});
    let answer = evaluate(&row.to_string(), &[], false).unwrap();
    assert_eq!(answer.rows[0].verdict, Some(VerdictKind::Uncertain));
}

/// Its steps would take too long to go through one by one, however small they are: it is neither said to fit nor not to.
#[test]
fn what_has_too_many_chunks_is_left_open() {
    let mut settings = all_right();
    settings.extend(self::settings(
        &json!({"seq_len": 4096, "mlp_chunk_tokens": 2}),
    ));
    let work = Workload::new(Mode::Train, &settings, None).unwrap();
    for load in [
        ROOMY,
        DeviceLoad {
            usable: Bytes(1),
            held: Bytes::ZERO,
        },
    ] {
        let answer = predict(&work, &class("NVIDIA H200"), &load, &Knowledge::default());
        assert_eq!(
            (answer.verdict, answer.source),
            (VerdictKind::Uncertain, Source::Unknown)
        );
    }
    let long = with(&row(), json!({"seq_len": 40_000, "mlp_chunk_tokens": 1}));
    let error = evaluate(&long.to_string(), &[], false).unwrap_err();
    assert!(error.message.contains("mlp_chunk_tokens"), "{error}");
}

#[test]
fn a_bad_row_is_named_by_its_line_and_field() {
    assert!(evaluate(&row().to_string(), &[], true).is_ok());
    let bad = |field: &str, value: &Value| {
        let table = format!("{}\n\n{}\n", row(), with(&row(), json!({field: value})));
        let error = evaluate(&table, &[], false).unwrap_err();
        assert_eq!(error.line, 3);
        assert!(
            error.message.contains(field) && error.message.len() < 400,
            "{field} {value}: {error}"
        );
        // A table to learn from is read as strictly.
        assert!(evaluate(&row().to_string(), &[&table], false).is_err());
    };
    for field in [
        "rank",
        "batch",
        "seq_len",
        "response_len",
        "optimizer_steps",
        "mlp_chunk_tokens",
    ] {
        for value in [json!(-1), json!(1.5), json!("8"), json!([]), json!(1e300)] {
            bad(field, &value);
        }
    }
    for field in ["rank", "batch", "seq_len", "response_len"] {
        bad(field, &json!(u64::MAX));
        bad(field, &json!(1_000_000_000));
    }
    for field in ["batch", "seq_len"] {
        bad(field, &json!(0));
    }
    for value in [json!(-0.1), json!(1), json!(1e300), json!("0.1")] {
        bad("dropout", &value);
    }
    for field in [
        "limit_mib",
        "after_load_mib",
        "pre_step_mib",
        "peak_allocated_mib",
        "peak_reserved_mib",
    ] {
        for value in [json!(-1), json!(1e300), json!("8 GiB"), json!(true)] {
            bad(field, &value);
        }
    }
    for field in ["quant", "optimizer"] {
        bad(field, &json!("whatever"));
    }
    for field in [
        "dora",
        "autocast",
        "save_on_cpu",
        "gradient_checkpointing",
        "status",
        "gpu",
        "targets",
    ] {
        bad(field, &json!(8));
    }
    bad("model_config", &json!("config.json"));
    let no_model = evaluate("{\"seq_len\": 8}", &[], false).unwrap_err();
    assert!(no_model.message.contains("model_config"), "{no_model}");
    let wide = with(
        &row(),
        json!({"model_config": with(&row()["model_config"], json!({"hidden_size": "wide"}))}),
    );
    let error = evaluate(&wide.to_string(), &[], false).unwrap_err();
    assert!(error.message.contains("`hidden_size`"), "{error}");
    // Sizes that each could be, not together.
    let long = with(
        &row(),
        json!({"seq_len": 90_000_000, "batch": 90_000_000, "mlp_chunk_tokens": 0}),
    );
    assert!(
        evaluate(&long.to_string(), &[], false)
            .unwrap_err()
            .message
            .contains("beyond any machine")
    );
    for text in ["[]", "null", "{", "\u{0}", "{\"model_config\": NaN}"] {
        assert_eq!(evaluate(text, &[], false).unwrap_err().line, 1, "{text}");
    }
    assert_eq!(evaluate("", &[], true).unwrap().summary.n, 0);
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0u64..5000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0.0..2.0_f64).prop_map(Value::from),
        select(vec![
            "nf4",
            "bf16",
            "none",
            "sdpa",
            "eager",
            "adamw",
            "sgd",
            "oom",
            "ok",
            "",
            "all-linear"
        ])
        .prop_map(Value::from),
        prop::collection::vec("[a-z_]{0,8}", 0..3).prop_map(Value::from),
    ]
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn whatever_the_settings_nothing_panics_or_runs_over(changes in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 1..5), mode in select(vec![Mode::Train, Mode::Probe, Mode::Bake]), class in cards()) {
        let mut settings = all_right();
        for (at, value) in changes {
            let (key, _) = right()[at.index(right().len())];
            settings.insert(key.to_owned(), value);
        }
        match Workload::new(mode, &settings, None) {
            Ok(work) => {
                let answer = predict(&work, &class, &ROOMY, &Knowledge::default());
                prop_assert!(is_whole(&answer), "{answer:?}");
                prop_assert_eq!(&answer, &predict(&work, &class, &ROOMY, &Knowledge::default()));
                prop_assert!(answer.need_mib.unwrap_or(0.0) < 1e12);
            }
            Err(error) => prop_assert!(settings.contains_key(&error.key), "{}", error),
        }
    }

    #[test]
    fn whatever_the_row_nothing_panics_or_runs_over(changes in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 1..5), model in models()) {
        let mut row = with(&row(), json!({"model_config": model}));
        let fields: Vec<String> = row.as_object().unwrap().keys().cloned().collect();
        for (at, value) in changes {
            row[&fields[at.index(fields.len())]] = value;
        }
        let table = format!("{row}\n{}\n", self::row());
        for alone in [true, false] {
            match evaluate(&table, &[&self::row().to_string()], alone) {
                Ok(answer) => {
                    prop_assert!(is_judged(&answer), "{row}: {answer:?}");
                    prop_assert_eq!(answer, evaluate(&table, &[&self::row().to_string()], alone).unwrap());
                }
                Err(error) => prop_assert_eq!(error.line, 1),
            }
        }
    }
}
