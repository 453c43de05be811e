//! What settings are read as, and which are refused.

use super::*;

#[test]
fn a_recipe_as_settings_reads_as_the_same_recipe() {
    let all = [
        json!({"model": "m"}),
        json!({
            "model": "m", "quant": "4bit", "targets": "q_proj", "rank": 96, "dropout": 0.3, "dora": true, "batch": 4,
            "seq_len": 7177, "response_len": 237, "optimizer": "adamw_bnb_8bit", "attention": "flash_attention_2",
            "memory_fixes": ["chunked_mlp", "chunked_loss", "save_on_cpu"], "mlp_chunk_tokens": 512,
            "autocast": false, "logits_freed_before_backward": true, "gradient_checkpointing": false,
            "double_quant": false, "expandable_segments": true, "alpha": 32, "learning_rate": 1e-4,
        }),
    ];
    for given in all {
        let settings: Settings = serde_json::from_value(given).unwrap();
        let recipe = Recipe::read(&settings).unwrap().unwrap();
        let plain = recipe.settings();
        assert_eq!(Recipe::read(&plain).unwrap().unwrap(), recipe);
        assert!(!plain.contains_key("alpha"));
    }
}
