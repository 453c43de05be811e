//! `sweep vram models` and `sweep vram cards`.

use serde_json::json;

use crate::said::*;

#[test]
fn what_is_known_by_name_is_listed() {
    let cards = json_of(&ask(&["vram", "cards", "--json"]));
    assert_eq!(cards["cards"], json!(vram::known_cards()));
    let card = [
        "name",
        "backend",
        "os",
        "total_mib",
        "total_source",
        "usable_mib",
        "usable_source",
        "basis",
    ];
    has(&cards["cards"][0], &card);
    assert!(text_of(&ask(&["vram", "cards"])).contains("RX 7900 XTX"));
    let models = json_of(&ask(&["vram", "models", "--json"]));
    assert_eq!(
        models["models"].as_array().map(Vec::len),
        Some(vram::known_models().count())
    );
    has(
        &models["models"][0],
        &["name", "family", "layers", "hidden", "parameters"],
    );
    assert!(text_of(&ask(&["vram", "models"])).contains("gemma-3-4b-it"));
}
