//! Reading a Hugging Face `config.json`: the published file of each family that the model knows, and of some that it does
//! not, with what memory depends on; and files that are no configuration, where each error names the field.
//! Says nothing of whether a prediction made from them is right, but for the number of parameters.

use proptest::prelude::*;
use serde_json::{Value, json};
use vram::{
    Architecture, Backend, Bytes, DeviceClass, DeviceLoad, Family, Knowledge, LONGEST_CONFIG, Mode,
    Settings, Workload, estimate, known_model, known_models, predict,
};

fn read(config: &Value) -> Architecture {
    match Architecture::from_value(config) {
        Ok(read) => read,
        Err(error) => panic!("{error}: {config}"),
    }
}

/// The field that is named.
fn refused(config: &Value) -> String {
    match Architecture::from_value(config) {
        Ok(read) => panic!("{config} was read as {read:?}"),
        Err(error) => {
            assert!(error.to_string().contains(&error.field), "{error}");
            assert!(error.to_string().len() < 400, "{error}");
            error.field
        }
    }
}

fn with(config: &Value, path: &str, value: Value) -> Value {
    let mut changed = config.clone();
    *changed
        .pointer_mut(path)
        .unwrap_or_else(|| panic!("{path} of {config}")) = value;
    changed
}

fn set(config: &Value, field: &str, value: Value) -> Value {
    let mut changed = config.clone();
    changed[field] = value;
    changed
}

fn without(config: &Value, field: &str) -> Value {
    let mut changed = config.clone();
    changed.as_object_mut().unwrap().remove(field);
    changed
}

mod published;
mod refused;

use published::*;

#[test]
fn each_family_is_read_as_it_is_published() {
    // Family, width of a head, key-value heads, tied, window, one full layer in so many.
    let expected = [
        (qwen_2_5_7b(), Family::Qwen2, 128, 4, false, None, 0),
        (
            mistral_7b_v0_1(),
            Family::Llama,
            128,
            8,
            false,
            Some(4096),
            0,
        ),
        (mistral_7b_v0_3(), Family::Llama, 128, 8, false, None, 0),
        (gemma_2_2b(), Family::Gemma2, 256, 4, true, Some(4096), 2),
        (gemma_3_4b(), Family::Gemma3, 256, 4, true, Some(1024), 6),
        (gemma_3_12b(), Family::Gemma3, 256, 8, true, Some(1024), 6),
        (gemma_3_1b(), Family::Gemma3, 256, 1, true, Some(512), 6),
        (llama_3_1_8b(), Family::Llama, 128, 8, false, None, 0),
        (qwen3_4b(), Family::Qwen3, 128, 8, true, None, 0),
        (phi_3_mini_4k(), Family::Phi3, 96, 32, false, Some(2047), 0),
        (smollm2_135m(), Family::Llama, 64, 3, true, None, 0),
        (smollm3_3b(), Family::Llama, 128, 4, true, None, 0),
        (mixtral_8x7b(), Family::Unknown, 128, 8, false, None, 0),
        (qwen3_30b_a3b(), Family::Unknown, 128, 4, false, None, 0),
        (qwen1_5_moe(), Family::Unknown, 128, 16, false, None, 0),
        (gpt_oss_20b(), Family::Unknown, 64, 8, false, Some(128), 2),
        (mistral_small_3_1(), Family::Unknown, 128, 8, false, None, 0),
    ];
    for (config, family, head_dim, kv_heads, tied, window, full_every) in expected {
        let read = read(&config);
        let found = (
            read.family,
            read.head_dim,
            read.kv_heads,
            read.tied,
            read.sliding_window,
        );
        assert_eq!(
            found,
            (family, head_dim, kv_heads, tied, window),
            "{config}"
        );
        if window.is_some() {
            assert_eq!(read.full_every, full_every, "{config}");
        }
        // The same from the bytes of the file.
        assert_eq!(
            Architecture::read(config.to_string().as_bytes()).unwrap(),
            read
        );
    }
    let vision = read(&gemma_3_4b()).vision.unwrap();
    assert_eq!(
        (vision.hidden, vision.layers, vision.image, vision.patch),
        (1152, 27, 896, 14)
    );
    assert_eq!(read(&gemma_3_4b()).heads, 8);
}

/// The registry has the same of them: whoever names the model gets what its file says.
#[test]
fn the_registry_agrees_with_the_published_files() {
    for (name, config) in [
        ("Qwen/Qwen2.5-7B-Instruct", qwen_2_5_7b()),
        ("mistralai/Mistral-7B-v0.1", mistral_7b_v0_1()),
        ("mistralai/Mistral-7B-Instruct-v0.3", mistral_7b_v0_3()),
        ("google/gemma-2-2b-it", gemma_2_2b()),
        ("unsloth/gemma-3-4b-it-unsloth-bnb-4bit", gemma_3_4b()),
        ("google/gemma-3-12b-pt", gemma_3_12b()),
        ("google/gemma-3-1b-it", gemma_3_1b()),
        ("meta-llama/Llama-3.1-8B-Instruct", llama_3_1_8b()),
        ("Qwen/Qwen3-4B", qwen3_4b()),
        ("microsoft/Phi-3-mini-4k-instruct", phi_3_mini_4k()),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", smollm2_135m()),
        ("HuggingFaceTB/SmolLM3-3B", smollm3_3b()),
        ("openai/gpt-oss-20b", gpt_oss_20b()),
    ] {
        assert_eq!(known_model(name), Some(&read(&config)), "{name}");
    }
}

/// Parameters of the `safetensors` files on the Hugging Face hub, a tied output matrix counted once. (The model's own
/// step counts norms, biases and the vision tower, too: what is loaded in half precision is two bytes of each.)
#[test]
fn the_published_numbers_of_parameters_come_out() {
    for (name, published) in [
        ("gemma-2-2b", 2_614_341_888_u64),
        ("gemma-2-9b", 9_241_705_984),
        ("gemma-2-27b", 27_227_128_320),
        ("gemma-3-1b-it", 999_885_952),
        ("gemma-3-4b-it", 4_300_079_472),
        ("gemma-3-12b-it", 12_187_325_040),
        ("gemma-3-27b-it", 27_432_406_640),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-3.2-1b", 1_235_814_400),
        ("llama-3.2-3b", 3_212_749_824),
        ("mistral-7b-v0.1", 7_241_732_096),
        ("mistral-7b-v0.3", 7_248_023_552),
        ("mistral-7b-instruct-v0.2", 7_241_732_096),
        ("mistral-nemo-base-2407", 12_247_782_400),
        // The presets of keras-hub say so, too.
        ("phi-3-mini-4k-instruct", 3_821_079_552),
        ("phi-3-mini-128k-instruct", 3_821_079_552),
        ("phi-4-mini-instruct", 3_836_021_760),
        ("qwen2.5-0.5b", 494_032_768),
        ("qwen2.5-1.5b", 1_543_714_304),
        ("qwen2.5-3b", 3_085_938_688),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen2.5-14b", 14_770_033_664),
        ("qwen2.5-32b", 32_763_876_352),
        ("qwen3-0.6b", 596_049_920),
        ("qwen3-1.7b", 1_720_574_976),
        ("qwen3-4b", 4_022_468_096),
        ("qwen3-8b", 8_190_735_360),
        ("qwen3-14b", 14_768_307_200),
        ("qwen3-32b", 32_762_123_264),
        ("smollm2-135m", 134_515_008),
        ("smollm2-360m", 361_821_120),
        ("smollm2-1.7b", 1_711_376_384),
        ("smollm3-3b", 3_075_098_624),
        ("tinyllama-1.1b-chat-v1.0", 1_100_048_384),
    ] {
        let loaded = loaded_mib(name) * f64::from(1 << 20) / 2.0;
        let off = (loaded / published as f64 - 1.0).abs();
        assert!(off < 0.001, "{name}: {loaded} against {published}");
        // Without norms, biases and eyes.
        let known = known_model(name).unwrap();
        if known.vision.is_none() {
            let counted = known.linear_parameters() + known.embedding_parameters();
            let off = (counted as f64 / published as f64 - 1.0).abs();
            assert!(off < 0.001, "{name}: {counted} against {published}");
        }
    }
    for (config, published) in [
        (mixtral_8x7b(), 46_702_792_704_u64),
        (qwen3_30b_a3b(), 30_532_122_624),
        (qwen1_5_moe(), 14_315_784_192),
        // As OpenAI counts them in its model card: 20.91 billion.
        (gpt_oss_20b(), 20_914_757_184),
    ] {
        let counted = read(&config).linear_parameters() + read(&config).embedding_parameters();
        let off = (counted as f64 / published as f64 - 1.0).abs();
        assert!(off < 0.01, "{config}: {counted} against {published}");
    }
}

/// Of the weights alone, in half precision, each rounded to 512 bytes.
fn loaded_mib(name: &str) -> f64 {
    let settings: Settings =
        serde_json::from_value(json!({"model": name, "quant": "bf16", "seq_len": 1})).unwrap();
    let workload = Workload::new(Mode::Probe, &settings, None).unwrap();
    let load = DeviceLoad {
        usable: Bytes(1 << 50),
        held: Bytes::ZERO,
    };
    let answer = predict(&workload, &class(), &load, &Knowledge::default());
    answer.after_load_mib.unwrap()
}

fn class() -> DeviceClass {
    DeviceClass {
        name: "NVIDIA H200".into(),
        backend: Backend::Cuda,
        os: "linux".into(),
        spills: false,
        simulated: false,
    }
}

/// A trained step of this configuration, in MiB of allocated memory.
fn need(config: &Value, changes: Value) -> Option<f64> {
    let mut settings: Settings = serde_json::from_value(json!({
        "model": "somebody/model", "model_config": config, "quant": "nf4", "rank": 16, "seq_len": 6000,
        "response_len": 256, "memory_fixes": ["logits_to_keep", "bf16_lm_head"],
    }))
    .unwrap();
    settings.extend(serde_json::from_value::<Settings>(changes).unwrap());
    let workload = Workload::new(Mode::Train, &settings, None).unwrap();
    let answer = estimate(&workload, &class(), &Knowledge::default());
    answer.map(|answer| answer.allocated.mib())
}

#[test]
fn a_window_that_is_not_used_costs_nothing() {
    // Qwen 2.5 has one in its file and does not use it.
    let qwen = qwen_2_5_7b();
    let unused = with(&qwen, "/sliding_window", json!(100));
    assert_eq!(need(&qwen, json!({})), need(&unused, json!({})));
    // Nor does it when the switch is left out, or when no layer is above the ones without a window.
    assert_eq!(
        read(&without(&unused, "use_sliding_window")).sliding_window,
        None
    );
    let used = with(&unused, "/use_sliding_window", json!(true));
    assert_eq!(read(&used).sliding_window, None);
    let all = with(&used, "/max_window_layers", json!(0));
    assert_eq!(
        (read(&all).sliding_window, read(&all).full_every),
        (Some(100), 0)
    );
    assert!(need(&all, json!({})) > need(&qwen, json!({})));
    // Some with and some without, in no pattern: weights are counted, activations are not known.
    let some = with(&used, "/max_window_layers", json!(10));
    assert!(!read(&some).family.is_known());
    assert_eq!(need(&some, json!({})), None);
    // Mistral's first version slides, its third does not; shorter than the window both are alike.
    let third = with(&mistral_7b_v0_3(), "/vocab_size", json!(32000));
    assert!(need(&mistral_7b_v0_1(), json!({})) > need(&third, json!({})));
    let short = json!({"seq_len": 4000});
    assert_eq!(need(&mistral_7b_v0_1(), short.clone()), need(&third, short));
    // Left out altogether, transformers has one for mistral and gemma; null is none.
    assert_eq!(
        read(&without(&mistral_7b_v0_1(), "sliding_window")).sliding_window,
        Some(4096)
    );
    assert_eq!(
        read(&without(&gemma_2_2b(), "sliding_window")).sliding_window,
        Some(4096)
    );
    assert_eq!(
        read(&without(&llama_3_1_8b(), "sliding_window")).sliding_window,
        None
    );
}

#[test]
fn a_list_of_layers_says_which_ones_slide() {
    let slides = |pattern: &[bool]| {
        let name = |slides: &bool| {
            if *slides {
                "sliding_attention"
            } else {
                "full_attention"
            }
        };
        let names: Vec<&str> = pattern.iter().map(name).collect();
        let mut config = set(&gemma_3_1b(), "layer_types", json!(names));
        config["num_hidden_layers"] = json!(pattern.len());
        read(&config)
    };
    for full_every in [2, 3, 6] {
        let pattern: Vec<bool> = (1..=24_u64)
            .map(|at| !at.is_multiple_of(full_every))
            .collect();
        let read = slides(&pattern);
        assert_eq!(read.full_every, full_every);
        let said: Vec<bool> = (0..24).map(|layer| read.is_sliding(layer)).collect();
        assert_eq!(said, pattern);
    }
    assert_eq!(slides(&[false; 8]).sliding_window, None);
    let all = slides(&[true; 8]);
    assert!((0..8).all(|layer| all.is_sliding(layer)));
    // Two full ones at the end are no pattern.
    assert!(
        !slides(&[true, true, true, true, false, false])
            .family
            .is_known()
    );
    // Nor is it known what another kind of layer costs.
    let config = gemma_3_1b();
    assert!(read(&config).family.is_known());
    let other = with(&config, "/layer_types/3", json!("linear_attention"));
    assert!(!read(&other).family.is_known());
    // gemma 2 alternates without saying so.
    let gemma = read(&gemma_2_2b());
    let said: Vec<bool> = (0..4).map(|layer| gemma.is_sliding(layer)).collect();
    assert_eq!(said, [true, false, true, false]);
}

#[test]
fn a_head_may_be_left_out_where_it_follows() {
    assert_eq!(read(&without(&qwen3_4b(), "head_dim")).head_dim, 128);
    assert_eq!(read(&without(&gemma_2_2b(), "head_dim")).head_dim, 256);
    assert_eq!(
        read(&set(&llama_3_1_8b(), "head_dim", Value::Null)).head_dim,
        128
    );
    // 14 heads of 64 are 896; 15 are nothing.
    let small = json!({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151_936});
    assert_eq!(read(&small).head_dim, 64);
    let odd = with(
        &with(&small, "/num_attention_heads", json!(15)),
        "/num_key_value_heads",
        json!(5),
    );
    assert_eq!(refused(&odd), "num_attention_heads");
    assert_eq!(read(&set(&odd, "head_dim", json!(64))).q_width(), 960);
}

#[test]
fn tied_or_not_is_said_or_follows() {
    let untied = read(&set(&gemma_2_2b(), "tie_word_embeddings", json!(false)));
    assert_eq!(
        untied.embedding_parameters(),
        2 * read(&gemma_2_2b()).embedding_parameters()
    );
    let llama = without(&llama_3_1_8b(), "tie_word_embeddings");
    assert!(!read(&llama).tied);
    assert!(read(&set(&llama, "tie_word_embeddings", json!(true))).tied);
    // Outside the text's part, where gemma 3 has it.
    assert!(!read(&set(&gemma_3_4b(), "tie_word_embeddings", json!(false))).tied);
}

/// Phi 3 has one matrix for queries, keys and values and one for gate and up; PEFT finds layers by their whole name.
#[test]
fn phi_3_is_adapted_by_the_names_it_has() {
    let phi = phi_3_mini_4k();
    let trained = |targets: Value| need(&phi, json!({"targets": targets, "rank": 256})).unwrap();
    let split = trained(json!([
        "q_proj",
        "k_proj",
        "v_proj",
        "gate_proj",
        "up_proj",
        "o_proj"
    ]));
    assert_eq!(split, trained(json!(["o_proj"])));
    let fused = trained(json!(["qkv_proj", "gate_up_proj", "o_proj"]));
    let adapters = 32 * 256 * ((3072 + 9216) + (3072 + 16384));
    // In fp32: the adapters and two moments, at the least.
    assert!(
        fused - split > f64::from(adapters) * 11.9 / f64::from(1 << 20),
        "{split} {fused}"
    );
    // And the other way round.
    let llama = llama_3_1_8b();
    let names = json!({"targets": ["o_proj", "qkv_proj", "gate_up_proj"]});
    assert_eq!(
        need(&llama, names),
        need(&llama, json!({"targets": ["o_proj"]}))
    );
}

#[test]
fn what_is_not_known_is_counted_and_left_open() {
    for config in [
        mixtral_8x7b(),
        qwen3_30b_a3b(),
        qwen1_5_moe(),
        gpt_oss_20b(),
        mistral_small_3_1(),
        set(&llama_3_1_8b(), "model_type", json!("olmo2")),
        set(&llama_3_1_8b(), "model_type", json!("LLAMA")),
        set(&llama_3_1_8b(), "vision_config", siglip()),
        set(&gemma_3_4b(), "model_type", json!("paligemma")),
    ] {
        let known = read(&config);
        assert!(!known.family.is_known(), "{config}");
        assert!(known.linear_parameters() > 0);
        assert_eq!(need(&config, json!({})), None, "{config}");
    }
    // A mixture of one expert is none, and a family with mixtures may have dense members.
    for experts in [0, 1] {
        let dense = set(&llama_3_1_8b(), "num_local_experts", json!(experts));
        assert_eq!(
            read(&dense).linear_parameters(),
            read(&llama_3_1_8b()).linear_parameters()
        );
        assert!(read(&dense).family.is_known());
    }
}
