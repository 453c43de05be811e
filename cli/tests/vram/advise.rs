//! `sweep vram advise` and `explain`.

use crate::said::*;

const CRASHED: [&str; 18] = [
    "vram",
    "advise",
    "--model",
    "unsloth/gemma-3-4b-it",
    "--set",
    "quant=nf4",
    "--set",
    "rank=112",
    "--set",
    "dropout=0.1",
    "--set",
    "seq_len=7177",
    "--set",
    "response_len=237",
    "--set",
    "optimizer=adamw_8bit",
    "--set",
    "memory_fixes=[\"chunked_mlp\",\"save_on_cpu\",\"bf16_lm_head\",\"logits_to_keep\"]",
];

#[test]
fn advice_is_what_was_tried_and_what_fits() {
    let mut words = CRASHED.to_vec();
    words.extend(["--device", "RTX 3070 Ti", "--json"]);
    let advice = json_of(&ask(&words));
    has(
        &advice,
        &[
            "verdict",
            "need_mib",
            "band_mib",
            "room_mib",
            "suggestions",
            "tried",
        ],
    );
    has(
        &advice["suggestions"][0],
        &[
            "change",
            "settings",
            "need_mib",
            "band_mib",
            "keeps_arithmetic",
        ],
    );
    assert_eq!(advice["suggestions"][0]["keeps_arithmetic"], true);
    assert!(advice["suggestions"][0]["need_mib"].as_f64().unwrap() < 7833.6);
    words.pop();
    let text = text_of(&ask(&words));
    assert!(text.contains("fits with:"), "{text}");
    assert!(text.contains("computes the same"), "{text}");
    // Without a device there is nothing to fit.
    refused(&CRASHED, &["--device NAME"]);
}

#[test]
fn the_peak_of_a_stream_is_explained_and_drawn() {
    let stream = shipped("fixtures/gemma3-4b-r112-2steps.gz");
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("peak.svg");
    let words = [
        "vram",
        "explain",
        "--from",
        plain(&stream),
        "--svg",
        plain(&svg),
        "--json",
    ];
    let explained = json_of(&ask(&words));
    has(
        &explained,
        &[
            "allocated_mib",
            "reserved_mib",
            "peak_stage",
            "by_module",
            "timeline",
            "stages",
        ],
    );
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(
        drawn.starts_with("<svg") && drawn.contains("peak allocated"),
        "{drawn}"
    );
    let text = text_of(&ask(&words[..words.len() - 1]));
    assert!(text.starts_with("peak allocated 7050.3 MiB in "), "{text}");
}

/// Labels as `rehearse.py` writes them: the module, and the line of code.
const LABELLED: &str = "\
a 1868272640 step model.py:72
a 1342504960 step fixes.py:18
m 1
a 105906176 layers.0.mlp.gate_proj bnb.py:552
a 1342504960 lm_head fixes.py:44
f 3
m 2
m 3
m 4
";

#[test]
fn a_rehearsed_stream_names_module_and_line_and_what_found_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let stream = folder.path().join("stream");
    std::fs::write(&stream, LABELLED).unwrap();
    let roomy = ["vram", "explain", "--from", plain(&stream)];
    let text = text_of(&ask(&roomy));
    assert!(text.contains("lm_head fixes.py:44"), "{text}");
    // What was copied is told also where it has ended before the peak.
    let largest = "lm_head fixes.py:44 (copied by save_on_cpu's offload)";
    assert!(text.contains(largest), "{text}");
    let explained = json_of(&ask(&[&roomy[..], &["--json"]].concat()));
    assert_eq!(
        explained["alive_at_peak"][1]["label"],
        "lm_head fixes.py:44"
    );
    assert_eq!(explained["alive_at_peak"][1]["mib"], 1280.31);
    assert!(explained["wanted"].is_null());
    let tight = [&roomy[..], &["--limit-mib", "3600"]].concat();
    let text = text_of(&ask(&tight));
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let wants = "out of memory, wanting 1280.3 MiB more for lm_head fixes.py:44 (copied by save_on_cpu's offload) in forward and loss, with 3164.3 MiB";
    assert!(said.contains(wants), "{text}");
    let explained = json_of(&ask(&[&tight[..], &["--json"]].concat()));
    has(
        &explained["wanted"],
        &[
            "event",
            "label",
            "mib",
            "stage",
            "allocated_mib",
            "reserved_mib",
        ],
    );
}
