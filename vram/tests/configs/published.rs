//! Each family's `config.json` as it is published, with what memory does not depend on. Judges nothing.

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
