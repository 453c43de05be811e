//! Families that no shipped table has, four layers of each, against the same step rehearsed with the real model code
//! under fake tensors (torch 2.15, transformers 5.24, peft 0.21.2), whose peaks were noted down here.

use serde_json::{Value, json};
use vram::evaluate;

fn row(config: Value, changes: Value) -> String {
    let mut row = json!({
        "gpu": "NVIDIA H200", "vendor": "nvidia", "model_config": config, "quant": "nf4", "double_quant": true,
        "rank": 32, "targets": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        "dropout": 0.0, "batch": 1, "seq_len": 2048, "response_len": 256, "attention": "sdpa", "optimizer_steps": 0,
        "gradient_checkpointing": true, "bf16_lm_head": true, "logits_to_keep": true, "autocast": true,
        "logits_freed_before_backward": true, "status": "ok",
    });
    for (key, value) in changes.as_object().unwrap() {
        row[key] = value.clone();
    }
    row.to_string()
}

fn gemma_2_2b() -> Value {
    json!({"model_type": "gemma2", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 4,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 256_000,
        "tie_word_embeddings": true, "sliding_window": 4096})
}

fn qwen_2_5_7b() -> Value {
    json!({"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 4,
        "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152_064, "tie_word_embeddings": false})
}

#[test]
fn other_families_come_out_of_their_shapes() {
    let gemma_3_1b = json!({"model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
        "vocab_size": 262_144, "tie_word_embeddings": true, "sliding_window": 512});
    let phi_3 = json!({"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 4,
        "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32_064, "tie_word_embeddings": false});
    let whole = json!({"logits_to_keep": false, "bf16_lm_head": false});
    let eager = json!({"attention": "eager"});
    let eager_whole = json!({"attention": "eager", "logits_to_keep": false, "bf16_lm_head": false});
    let offloaded = json!({"seq_len": 4096, "save_on_cpu": true, "save_on_cpu_skips_weights": true,
        "mlp_chunk_tokens": 1024});
    let offloaded_eager = json!({"attention": "eager", "seq_len": 6144, "save_on_cpu": true, "mlp_chunk_tokens": 1024});
    for (config, changes, rehearsed) in [
        (qwen_2_5_7b(), whole, 9474.1),
        (qwen_2_5_7b(), offloaded, 4533.7),
        (gemma_2_2b(), eager, 2299.5),
        (gemma_2_2b(), eager_whole, 10_727.1),
        (gemma_2_2b(), offloaded_eager, 6933.3),
        (gemma_3_1b, json!({}), 1485.5),
        (phi_3, json!({}), 1240.8),
    ] {
        let answer = evaluate(&row(config, changes.clone()), &[], false).unwrap();
        let predicted = answer.rows[0].predicted_allocated_mib.unwrap();
        assert!(
            (predicted / rehearsed - 1.0).abs() < 0.005,
            "{changes}: {predicted} against {rehearsed}"
        );
    }
}

#[test]
fn a_mixture_of_experts_is_uncertain() {
    let mut config = qwen_2_5_7b();
    config["num_experts"] = json!(64);
    config["moe_intermediate_size"] = json!(1408);
    let answer = evaluate(&row(config, json!({"limit_mib": 8000.0})), &[], false).unwrap();
    assert_eq!(answer.rows[0].predicted_allocated_mib, None);
    assert_eq!(answer.summary.verdicts.uncertain, 1);
}
