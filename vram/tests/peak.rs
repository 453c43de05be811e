//! Why a recipe needs what it needs: the blocks alive at its replayed peak, and the one that finds no place. Of gemma 3
//! 4B at rank 112 that is the output matrix, which `save_on_cpu` copies on the card before it copies it to the host.

use serde_json::{Value, json};
use vram::{
    Backend, Bytes, CardKind, DeviceClass, DeviceLoad, Knowledge, LARGEST, Made, Mode, Origin,
    Peak, Settings, Stream, Workload, peak,
};

const COPIED: Option<&str> = Some("lm_head copied by save_on_cpu's offload");

fn class() -> DeviceClass {
    DeviceClass {
        name: "NVIDIA GeForce RTX 3070 Ti".to_owned(),
        backend: Backend::Cuda,
        os: "linux".to_owned(),
        spills: false,
        simulated: false,
    }
}

fn workload(mode: Mode, changes: Value) -> Workload {
    let mut settings: Settings = serde_json::from_value(json!({
        "model": "google/gemma-3-4b-it", "quant": "nf4", "rank": 112, "dropout": 0.1, "seq_len": 7177,
        "response_len": 237, "optimizer": "adamw_8bit",
        "memory_fixes": ["chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep"],
    }))
    .unwrap();
    settings.extend(serde_json::from_value::<Settings>(changes).unwrap());
    Workload::new(mode, &settings, None).unwrap()
}

fn explained(workload: &Workload, usable_mib: f64, knowledge: &Knowledge) -> Option<Peak> {
    let load = DeviceLoad {
        usable: Bytes::from_mib(usable_mib),
        held: Bytes::ZERO,
    };
    peak(workload, &class(), &load, knowledge)
}

fn with(streams: &[(&Workload, Origin, &[u8])]) -> Knowledge {
    let mut knowledge = Knowledge::default();
    for (workload, origin, bytes) in streams {
        let made = Made {
            origin: *origin,
            card: CardKind::of(&class()),
            by: String::new(),
            doubtful: false,
        };
        assert!(knowledge.learn_stream(workload, made, Stream::read(bytes).unwrap()));
    }
    knowledge
}

#[test]
fn the_offloads_copy_of_the_output_matrix_finds_no_place() {
    let recipe = workload(Mode::Train, json!({}));
    let known = explained(&recipe, 7833.6, &Knowledge::default()).unwrap();
    println!("{known:#?}");
    assert_eq!((known.stream, known.scaled), (Origin::Shapes, false));
    let failure = known.out_of_memory.unwrap();
    assert_eq!(failure.wanted.mib, 1280.3);
    assert_eq!(failure.wanted.note.as_deref(), COPIED);
    assert_eq!(failure.wanted.stage, "forward and loss, step 2");
    assert!(failure.allocated_mib + failure.wanted.mib < known.limit_mib);
    // A share of all that is alive, largest first.
    assert_eq!(known.largest.len(), LARGEST);
    assert!(known.largest.is_sorted_by(|a, b| a.mib >= b.mib));
    let sum: f64 = known.largest.iter().map(|one| one.mib).sum();
    // What the allocator cannot split off belongs to no block.
    let all = sum + known.others_mib;
    assert!((0.0..0.03 * all).contains(&(known.allocated_mib - all)));
    let shares: f64 = known.largest.iter().map(|one| one.share).sum();
    assert!((shares - sum / all).abs() < 0.005);
    // Where the offload leaves weights alone there is no such copy.
    let fixes = json!({"memory_fixes":
        ["chunked_mlp", "save_on_cpu", "save_on_cpu_skips_weights", "bf16_lm_head", "logits_to_keep"]});
    let skips = workload(Mode::Train, fixes);
    let skips = explained(&skips, 24_576.0, &Knowledge::default()).unwrap();
    assert!(skips.largest_request.mib < 500.0, "{skips:?}");
    assert!(skips.out_of_memory.is_none());
}

/// Recorded on a card: there are no labels, only sizes.
#[test]
fn a_recorded_stream_tells_the_same_by_sizes() {
    let recipe = workload(Mode::Train, json!({"dropout": 0.0}));
    let bytes = include_bytes!("../fixtures/gemma3-4b-r112-2steps.gz");
    let knowledge = with(&[(&recipe, Origin::Recorded, bytes)]);
    let known = explained(&recipe, 7300.0, &knowledge).unwrap();
    println!("{known:#?}");
    assert_eq!(known.stream, Origin::Recorded);
    assert_eq!(known.largest_request.mib, 1280.3);
    assert_eq!(known.largest_request.note.as_deref(), COPIED);
    let matrix = &known.largest[0];
    assert_eq!(
        (matrix.mib, matrix.note.as_deref()),
        (1280.3, Some("lm_head and the embedding, one matrix"))
    );
}

/// The labels are those that `rehearse.py` writes; the sizes are gemma 3 4B's.
const REHEARSED: &str = "\
a 1868272640 step model.py:72
a 1342504960 step fixes.py:18
m 1
a 105906176 layers.0.mlp.gate_proj bnb.py:552
a 105906176 layers.1.mlp.gate_proj bnb.py:552
a 73492480 layers.0.input_layernorm modeling_gemma3.py:129
f 2
f 3
a 1342504960 lm_head fixes.py:44
f 5
m 2
a 1342504960 head backward:MmBackward0 fixes.py:47
f 6
a 4587520 layers.0 backward:MmBackward0
m 3
m 4
";

#[test]
fn a_rehearsed_stream_names_module_and_line() {
    let recipe = workload(Mode::Train, json!({}));
    let knowledge = with(&[(&recipe, Origin::Rehearsed, REHEARSED.as_bytes())]);
    let known = explained(&recipe, 3600.0, &knowledge).unwrap();
    assert_eq!(
        (known.stream, known.stage.as_str()),
        (Origin::Rehearsed, "forward and loss")
    );
    let named: Vec<(&str, &str, f64)> = known
        .largest
        .iter()
        .map(|one| (one.module.as_str(), one.line.as_str(), one.mib))
        .collect();
    assert_eq!(
        named,
        [
            ("step", "model.py:72", 1781.7),
            ("lm_head", "fixes.py:44", 1280.3),
            ("step", "fixes.py:18", 1280.3),
            ("layers.0.input_layernorm", "modeling_gemma3.py:129", 70.1),
        ]
    );
    assert_eq!(known.largest[1].note.as_deref(), COPIED);
    let failure = known.out_of_memory.unwrap();
    let wanted = &failure.wanted;
    assert_eq!(
        (wanted.module.as_str(), wanted.line.as_str(), wanted.mib),
        ("lm_head", "fixes.py:44", 1280.3)
    );
    // Scaled to a rank that nobody rehearsed.
    let other = workload(Mode::Train, json!({"rank": 96}));
    let knowledge = with(&[
        (&recipe, Origin::Rehearsed, REHEARSED.as_bytes()),
        (&other, Origin::Rehearsed, REHEARSED.as_bytes()),
    ]);
    let between = workload(Mode::Train, json!({"rank": 104}));
    let scaled = explained(&between, 3600.0, &knowledge).unwrap();
    assert!(scaled.scaled);
    assert_eq!(scaled.largest_request.note.as_deref(), COPIED);
}

#[test]
fn one_line_of_all_layers_is_one_row() {
    let recipe = workload(Mode::Train, json!({}));
    let text = "a 1048576 step model.py:72\nm 1\na 524288 layers.0.mlp bnb.py:552\na 524288 layers.33.mlp bnb.py:552\nm 4\n";
    let knowledge = with(&[(&recipe, Origin::Rehearsed, text.as_bytes())]);
    let known = explained(&recipe, 3600.0, &knowledge).unwrap();
    let row = known
        .largest
        .iter()
        .find(|one| one.module == "layers.*.mlp")
        .unwrap();
    assert_eq!((row.blocks, row.mib, row.share), (2, 1.0, 0.5));
    assert!(known.out_of_memory.is_none());
}

#[test]
fn without_a_step_there_is_nothing_to_explain() {
    let bake = workload(Mode::Bake, json!({"context_len": 4096}));
    assert!(explained(&bake, 7833.6, &Knowledge::default()).is_none());
    let own = Workload::new(Mode::Train, &Settings::new(), None).unwrap();
    assert!(explained(&own, 7833.6, &Knowledge::default()).is_none());
}
