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

/// As published, with what memory does not depend on.
mod published {
    use serde_json::{Value, json};

    pub fn qwen_2_5_7b() -> Value {
        json!({
            "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
            "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 3584, "initializer_range": 0.02,
            "intermediate_size": 18944, "max_position_embeddings": 32768, "max_window_layers": 28,
            "model_type": "qwen2", "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
            "rms_norm_eps": 1e-6, "rope_theta": 1_000_000.0, "sliding_window": 131_072, "tie_word_embeddings": false,
            "torch_dtype": "bfloat16", "transformers_version": "4.43.1", "use_cache": true,
            "use_sliding_window": false, "vocab_size": 152_064,
        })
    }

    pub fn mistral_7b_v0_1() -> Value {
        json!({
            "architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
            "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
            "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32,
            "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "sliding_window": 4096, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true,
            "vocab_size": 32000,
        })
    }

    pub fn mistral_7b_v0_3() -> Value {
        json!({
            "architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu",
            "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
            "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
            "rms_norm_eps": 1e-5, "rope_theta": 1_000_000.0, "sliding_window": null, "tie_word_embeddings": false,
            "vocab_size": 32768,
        })
    }

    /// Ties its embeddings without saying so.
    pub fn gemma_2_2b() -> Value {
        json!({
            "architectures": ["Gemma2ForCausalLM"], "attention_bias": false, "attn_logit_softcapping": 50.0,
            "cache_implementation": "hybrid", "final_logit_softcapping": 30.0, "head_dim": 256,
            "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304,
            "intermediate_size": 9216, "max_position_embeddings": 8192, "model_type": "gemma2",
            "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4, "pad_token_id": 0,
            "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "sliding_window": 4096,
            "torch_dtype": "float32", "use_cache": true, "vocab_size": 256_000,
        })
    }

    /// Google's own leaves out heads, key-value heads, their width and the vocabulary.
    pub fn gemma_3_4b() -> Value {
        json!({
            "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255_999, "eoi_token_index": 256_000,
            "eos_token_id": [1, 106], "image_token_index": 262_144, "initializer_range": 0.02,
            "mm_tokens_per_image": 256, "model_type": "gemma3",
            "text_config": {
                "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
                "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024,
            },
            "torch_dtype": "bfloat16", "vision_config": siglip(),
        })
    }

    pub fn gemma_3_12b() -> Value {
        json!({
            "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
            "text_config": {
                "hidden_size": 3840, "intermediate_size": 15360, "model_type": "gemma3_text",
                "num_attention_heads": 16, "num_hidden_layers": 48, "num_key_value_heads": 8,
                "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024,
            },
            "vision_config": siglip(),
        })
    }

    pub fn siglip() -> Value {
        json!({
            "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "model_type": "siglip_vision_model",
            "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": false,
        })
    }

    /// As newer versions of transformers write it: no nesting, a list of layers.
    pub fn gemma_3_1b() -> Value {
        let types = |layer: usize| {
            if (layer + 1).is_multiple_of(6) {
                "full_attention"
            } else {
                "sliding_attention"
            }
        };
        json!({
            "architectures": ["Gemma3ForCausalLM"], "_sliding_window_pattern": 6, "attention_bias": false,
            "attn_logit_softcapping": null, "final_logit_softcapping": null, "head_dim": 256, "hidden_size": 1152,
            "intermediate_size": 6912, "layer_types": (0..26).map(types).collect::<Vec<_>>(),
            "max_position_embeddings": 32768, "model_type": "gemma3_text", "num_attention_heads": 4,
            "num_hidden_layers": 26, "num_key_value_heads": 1, "query_pre_attn_scalar": 256,
            "rope_local_base_freq": 10000, "rope_scaling": null, "sliding_window": 512, "vocab_size": 262_144,
        })
    }

    pub fn llama_3_1_8b() -> Value {
        json!({
            "architectures": ["LlamaForCausalLM"], "attention_bias": false, "bos_token_id": 128_000,
            "eos_token_id": [128_001, 128_008, 128_009], "hidden_act": "silu", "hidden_size": 4096,
            "intermediate_size": 14336, "max_position_embeddings": 131_072, "mlp_bias": false, "model_type": "llama",
            "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1,
            "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192, "rope_type": "llama3"},
            "rope_theta": 500_000.0, "tie_word_embeddings": false, "vocab_size": 128_256,
        })
    }

    pub fn qwen3_4b() -> Value {
        json!({
            "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "head_dim": 128, "hidden_act": "silu",
            "hidden_size": 2560, "intermediate_size": 9728, "max_position_embeddings": 40960, "max_window_layers": 36,
            "model_type": "qwen3", "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8,
            "rope_scaling": null, "sliding_window": null, "tie_word_embeddings": true, "use_sliding_window": false,
            "vocab_size": 151_936,
        })
    }

    pub fn phi_3_mini_4k() -> Value {
        json!({
            "architectures": ["Phi3ForCausalLM"], "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"},
            "embd_pdrop": 0.0, "hidden_act": "silu", "hidden_size": 3072, "intermediate_size": 8192,
            "max_position_embeddings": 4096, "model_type": "phi3", "num_attention_heads": 32,
            "num_hidden_layers": 32, "num_key_value_heads": 32, "original_max_position_embeddings": 4096,
            "rope_scaling": null, "rope_theta": 10000.0, "sliding_window": 2047, "tie_word_embeddings": false,
            "attention_bias": false, "vocab_size": 32064,
        })
    }

    pub fn smollm2_135m() -> Value {
        json!({
            "architectures": ["LlamaForCausalLM"], "hidden_size": 576, "intermediate_size": 1536,
            "is_llama_config": true, "max_position_embeddings": 8192, "model_type": "llama",
            "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3, "rope_interleaved": false,
            "rope_scaling": null, "rope_theta": 100_000, "tie_word_embeddings": true, "vocab_size": 49152,
        })
    }

    pub fn smollm3_3b() -> Value {
        let rotates = |layer: usize| usize::from(!(layer + 1).is_multiple_of(4));
        json!({
            "architectures": ["SmolLM3ForCausalLM"], "hidden_size": 2048, "intermediate_size": 11008,
            "layer_types": vec!["full_attention"; 36], "max_window_layers": 28, "model_type": "smollm3",
            "no_rope_layers": (0..36).map(rotates).collect::<Vec<_>>(), "num_attention_heads": 16,
            "num_hidden_layers": 36, "num_key_value_heads": 4, "sliding_window": null, "use_sliding_window": false,
            "vocab_size": 128_256,
        })
    }

    pub fn mixtral_8x7b() -> Value {
        json!({
            "architectures": ["MixtralForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
            "model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
            "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false,
            "router_aux_loss_coef": 0.02, "sliding_window": null, "tie_word_embeddings": false, "vocab_size": 32000,
        })
    }

    pub fn qwen3_30b_a3b() -> Value {
        json!({
            "architectures": ["Qwen3MoeForCausalLM"], "decoder_sparse_step": 1, "head_dim": 128, "hidden_size": 2048,
            "intermediate_size": 6144, "max_window_layers": 48, "mlp_only_layers": [], "model_type": "qwen3_moe",
            "moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 32, "num_experts": 128,
            "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4, "sliding_window": null,
            "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151_936,
        })
    }

    pub fn qwen1_5_moe() -> Value {
        json!({
            "architectures": ["Qwen2MoeForCausalLM"], "decoder_sparse_step": 1, "hidden_size": 2048,
            "intermediate_size": 5632, "max_window_layers": 21, "model_type": "qwen2_moe",
            "moe_intermediate_size": 1408, "num_attention_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
            "num_hidden_layers": 24, "num_key_value_heads": 16, "shared_expert_intermediate_size": 5632,
            "sliding_window": 32768, "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151_936,
        })
    }

    pub fn gpt_oss_20b() -> Value {
        let types = |layer: usize| {
            if layer.is_multiple_of(2) {
                "sliding_attention"
            } else {
                "full_attention"
            }
        };
        json!({
            "architectures": ["GptOssForCausalLM"], "attention_bias": true, "experts_per_token": 4, "head_dim": 64,
            "hidden_size": 2880, "initial_context_length": 4096, "intermediate_size": 2880,
            "layer_types": (0..24).map(types).collect::<Vec<_>>(), "model_type": "gpt_oss",
            "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 8,
            "num_local_experts": 32, "quantization_config": {"quant_method": "mxfp4"}, "sliding_window": 128,
            "swiglu_limit": 7.0, "tie_word_embeddings": false, "vocab_size": 201_088,
        })
    }

    /// A known decoder and a vision tower that is not gemma's.
    pub fn mistral_small_3_1() -> Value {
        json!({
            "architectures": ["Mistral3ForConditionalGeneration"], "image_token_index": 10, "model_type": "mistral3",
            "spatial_merge_size": 2,
            "text_config": {"head_dim": 128, "hidden_size": 5120, "intermediate_size": 32768, "model_type": "mistral",
                "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
                "sliding_window": null, "vocab_size": 131_072},
            "vision_config": {"head_dim": 64, "hidden_size": 1024, "image_size": 1540, "intermediate_size": 4096,
                "model_type": "pixtral", "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14},
        })
    }
}

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
