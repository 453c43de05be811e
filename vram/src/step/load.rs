//! The model on the card before the first step: base weights as they are loaded and quantised, k-bit preparation,
//! adapters. The order matters: it decides which segments the adapters land in and what the cache can give back.

use std::rc::Rc;

use crate::recipe::Quant;
use crate::step::block::Block;
use crate::step::linear::{Adapter, Linear};
use crate::step::{AFTER_LOAD, Plan};
use crate::stream::Event;
use crate::tape::{Dtype, Part, Raw, Tape};

/// The loaded model. What it holds stays until it is dropped.
pub(crate) struct Model {
    pub blocks: Vec<Rc<Block>>,
    pub head: Raw,
    /// Parameters of each trained tensor, by its id.
    pub trained: Vec<(u32, u64)>,
    _held: Vec<Raw>,
}

/// A parameter of the base model.
#[derive(Clone, Copy)]
enum Parameter {
    /// A linear layer: inputs, outputs.
    Linear(u64, u64),
    /// Anything else, in elements.
    Other(u64),
    Embedding(u64),
    /// A buffer of whole numbers (positions), which no preparation touches.
    Fixed(u64),
}

/// The adapted linear layers of one block, by name, in the order of the module tree.
fn linears(plan: &Plan) -> Vec<(&'static str, u64, u64)> {
    let arch = &plan.arch;
    let (h, i, q, kv) = (
        arch.hidden,
        arch.intermediate,
        arch.q_width(),
        arch.kv_width(),
    );
    if arch.family == crate::architecture::Family::Phi3 {
        return vec![
            ("o_proj", q, h),
            ("qkv_proj", h, q + 2 * kv),
            ("gate_up_proj", h, 2 * i),
            ("down_proj", i, h),
        ];
    }
    vec![
        ("q_proj", h, q),
        ("k_proj", h, kv),
        ("v_proj", h, kv),
        ("o_proj", q, h),
        ("gate_proj", h, i),
        ("up_proj", h, i),
        ("down_proj", i, h),
    ]
}

fn block_parameters(plan: &Plan) -> Vec<Parameter> {
    use crate::architecture::Family::{Gemma2, Gemma3, Qwen2, Qwen3};
    let arch = &plan.arch;
    let mut all: Vec<Parameter> = Vec::new();
    let qk_norms = matches!(arch.family, Gemma3 | Qwen3);
    for (name, inputs, outputs) in linears(plan) {
        all.push(Parameter::Linear(inputs, outputs));
        if arch.family == Qwen2 && matches!(name, "q_proj" | "k_proj" | "v_proj") {
            all.push(Parameter::Other(outputs));
        }
        if qk_norms && name == "o_proj" {
            all.extend([Parameter::Other(arch.head_dim); 2]);
        }
    }
    let norms = if matches!(arch.family, Gemma2 | Gemma3) {
        4
    } else {
        2
    };
    all.extend(vec![Parameter::Other(arch.hidden); norms]);
    all
}

/// The vision tower of gemma 3, module by module: SigLIP layers with biases, and the projector.
fn vision_parameters(plan: &Plan) -> Vec<Parameter> {
    use Parameter::{Fixed, Linear, Other};
    let Some(vision) = plan.arch.vision else {
        return Vec::new();
    };
    let (h, i) = (vision.hidden, vision.intermediate);
    let side = vision.image / vision.patch.max(1);
    let mut all = vec![
        Other(3 * vision.patch * vision.patch * h),
        Other(h),
        Other(side * side * h),
        Fixed(side * side),
    ];
    for _ in 0..vision.layers {
        all.extend([Other(h), Other(h)]);
        for _ in 0..4 {
            all.extend([Linear(h, h), Other(h)]);
        }
        all.extend([
            Other(h),
            Other(h),
            Linear(h, i),
            Other(i),
            Linear(i, h),
            Other(h),
        ]);
    }
    // After the last layer; then the projector, a plain matrix, and its norm.
    all.extend([Other(h), Other(h), Other(h * plan.arch.hidden), Other(h)]);
    all
}

fn parameters(plan: &Plan) -> Vec<Parameter> {
    let mut all = vision_parameters(plan);
    all.push(Parameter::Embedding(plan.arch.vocab * plan.arch.hidden));
    for _ in 0..plan.arch.layers {
        all.extend(block_parameters(plan));
    }
    all.push(Parameter::Other(plan.arch.hidden));
    if !plan.arch.tied {
        all.push(Parameter::Embedding(plan.arch.vocab * plan.arch.hidden));
    }
    all
}

pub(crate) fn load(tape: &Tape, plan: &Plan) -> Model {
    let all = parameters(plan);
    let mut held = whole(tape, plan, &all);
    let mut embeddings = Vec::new();
    if plan.quant.is_kbit() {
        held = quantised(tape, plan, &all, held);
    }
    tape.log.push(Event::EmptyCache);
    tape.log.push(Event::Mark(AFTER_LOAD));
    if plan.quant.is_kbit() {
        prepare(tape, plan, &mut held);
    }
    for (at, parameter) in all.iter().enumerate() {
        if matches!(parameter, Parameter::Embedding(_)) {
            embeddings.extend(held.get(at).and_then(|raws| raws.first().cloned()));
        }
    }
    if plan.cache_emptied_before_adapters {
        tape.log.push(Event::EmptyCache);
    }
    let (blocks, trained, extra) = adapters(tape, plan);
    let head = embeddings
        .pop()
        .unwrap_or_else(|| Raw::nothing(0, Dtype::Bf16));
    let held = held.into_iter().flatten().chain(extra).collect();
    tape.log.push(Event::EmptyCache);
    Model {
        blocks,
        head,
        trained,
        _held: held,
    }
}

/// Every parameter in the type it is loaded in, in the order of the modules.
fn whole(tape: &Tape, plan: &Plan, all: &[Parameter]) -> Vec<Vec<Raw>> {
    let dtype = if plan.quant == Quant::Fp32 {
        Dtype::Fp32
    } else {
        plan.half
    };
    let one = |parameter: &Parameter| {
        let (part, numel) = match parameter {
            Parameter::Linear(inputs, outputs) => (Part::Weights, inputs * outputs),
            Parameter::Other(numel) | Parameter::Embedding(numel) | Parameter::Fixed(numel) => {
                (Part::UnquantisedWeights, *numel)
            }
        };
        tape.part(part);
        let whole_numbers = matches!(parameter, Parameter::Fixed(_));
        vec![tape.new_raw(numel, if whole_numbers { Dtype::I64 } else { dtype })]
    };
    let held = all.iter().map(one).collect();
    if plan.arch.tied {
        // The output matrix is made before it is tied to the embedding.
        drop(tape.new_raw(plan.arch.vocab * plan.arch.hidden, dtype));
    }
    held
}

/// bitsandbytes on each linear layer in turn; the whole weights go at the end.
fn quantised(tape: &Tape, plan: &Plan, all: &[Parameter], whole: Vec<Vec<Raw>>) -> Vec<Vec<Raw>> {
    tape.part(Part::Weights);
    let mut gone = Vec::new();
    let mut held = Vec::with_capacity(whole.len());
    for (parameter, raws) in all.iter().zip(whole) {
        let Parameter::Linear(inputs, outputs) = parameter else {
            held.push(raws);
            continue;
        };
        gone.extend(raws);
        held.push(quantised_weight(tape, plan, *inputs, *outputs));
    }
    while let Some(last) = gone.pop() {
        drop(last);
    }
    held
}

fn quantised_weight(tape: &Tape, plan: &Plan, inputs: u64, outputs: u64) -> Vec<Raw> {
    let numel = inputs * outputs;
    if plan.quant == Quant::Int8 {
        // From fp16: one fp32 scale a row and one byte an element.
        let half = (plan.half != Dtype::Fp16).then(|| tape.new_raw(numel, Dtype::Fp16));
        let made = vec![
            tape.new_raw(outputs, Dtype::Fp32),
            tape.new_raw(numel, Dtype::U8),
        ];
        drop(half);
        return made;
    }
    // Scales of blocks of 64, packed halves, the code book of 16 and what it is made with.
    let scales = tape.new_raw(numel.div_ceil(64), Dtype::Fp32);
    let mut kept = vec![
        tape.new_raw(numel.div_ceil(2), Dtype::U8),
        tape.new_raw(16, Dtype::Fp32),
    ];
    drop([tape.new_raw(16, Dtype::Fp32), tape.new_raw(1, Dtype::Fp32)]);
    if !plan.double_quant {
        kept.push(scales);
        return kept;
    }
    // Nested: their mean, scales of blocks of 256, one byte each, a code book of 256.
    kept.push(tape.new_raw(1, Dtype::Fp32));
    let centred = tape.new_raw(numel.div_ceil(64), Dtype::Fp32);
    let blocks = numel.div_ceil(64);
    kept.push(tape.new_raw(blocks.div_ceil(256), Dtype::Fp32));
    kept.push(tape.new_raw(blocks, Dtype::U8));
    kept.push(tape.new_raw(256, Dtype::Fp32));
    drop((centred, scales));
    kept
}

/// k-bit preparation: whatever is not quantised goes to fp32; the recipe may bring embedding and head back.
fn prepare(tape: &Tape, plan: &Plan, held: &mut [Vec<Raw>]) {
    tape.part(Part::UnquantisedWeights);
    for raws in held.iter_mut() {
        if let [one] = raws.as_mut_slice()
            && one.dtype == plan.half
        {
            *one = tape.new_raw(one.numel, Dtype::Fp32);
        }
    }
    if plan.bf16_lm_head {
        let size = plan.arch.vocab * plan.arch.hidden;
        for raws in held.iter_mut() {
            if let [one] = raws.as_mut_slice()
                && one.numel == size
            {
                *one = tape.new_raw(one.numel, plan.half);
            }
        }
    }
}

/// Names and shapes of the layers PEFT adapts outside the language model: it matches by name only.
fn vision_targets(plan: &Plan) -> Vec<(u64, u64)> {
    let Some(vision) = plan.arch.vision else {
        return Vec::new();
    };
    let (h, i) = (vision.hidden, vision.intermediate);
    let layer = [
        ("k_proj", h, h),
        ("v_proj", h, h),
        ("q_proj", h, h),
        ("out_proj", h, h),
        ("fc1", h, i),
        ("fc2", i, h),
    ];
    let adapted = layer.into_iter().filter(|(name, ..)| plan.adapts(name));
    let adapted: Vec<(u64, u64)> = adapted
        .map(|(_, inputs, outputs)| (inputs, outputs))
        .collect();
    adapted.repeat(vision.layers as usize)
}

/// Blocks with their adapters, the trained tensors and their sizes, and what is held besides.
type Adapted = (Vec<Rc<Block>>, Vec<(u32, u64)>, Vec<Raw>);

fn adapters(tape: &Tape, plan: &Plan) -> Adapted {
    tape.part(Part::Adapters);
    let mut shapes: Vec<(u64, u64)> = vision_targets(plan);
    let idle = shapes.len();
    for _ in 0..plan.arch.layers {
        let adapted = linears(plan)
            .into_iter()
            .filter(|(name, ..)| plan.adapts(name));
        shapes.extend(adapted.map(|(_, inputs, outputs)| (inputs, outputs)));
    }
    let pair = |dtype: Dtype, (inputs, outputs): (u64, u64)| {
        [
            tape.new_raw(inputs * plan.rank, dtype),
            tape.new_raw(outputs * plan.rank, dtype),
        ]
    };
    // Made in the base's type, then all cast to fp32 one by one.
    let narrow: Vec<[Raw; 2]> = shapes.iter().map(|shape| pair(plan.half, *shape)).collect();
    let mut wide = Vec::with_capacity(narrow.len());
    for [a, b] in narrow {
        let wide_a = tape.new_raw(a.numel, Dtype::Fp32);
        drop(a);
        let wide_b = tape.new_raw(b.numel, Dtype::Fp32);
        drop(b);
        wide.push([wide_a, wide_b]);
    }
    let mut extra: Vec<Raw> = Vec::new();
    let magnitudes: Vec<Option<Raw>> = shapes
        .iter()
        .map(|(_, outputs)| plan.dora.then(|| tape.new_raw(*outputs, Dtype::Fp32)))
        .collect();
    if plan.dora && !shapes.is_empty() {
        // The norms are made of products, so that the first workspace is there before the step.
        tape.blas();
    }
    let mut trained = Vec::new();
    let mut ready = wide.into_iter().zip(magnitudes);
    for ([a, b], magnitude) in ready.by_ref().take(idle) {
        extra.extend([a, b]);
        extra.extend(magnitude);
    }
    let mut next = 0;
    let blocks = (0..plan.arch.layers)
        .map(|_| {
            let mut layer = |(name, inputs, outputs): (&'static str, u64, u64)| {
                let adapter = if plan.adapts(name) {
                    ready.next()
                } else {
                    None
                };
                let adapter = adapter.map(|([a, b], magnitude)| {
                    let id = next;
                    next += 1;
                    trained.extend([(id * 3, a.numel), (id * 3 + 1, b.numel)]);
                    trained.extend(magnitude.as_ref().map(|raw| (id * 3 + 2, raw.numel)));
                    Adapter {
                        id,
                        a: tape.leaf(a, id * 3),
                        b: tape.leaf(b, id * 3 + 1),
                        magnitude: magnitude.map(|raw| tape.leaf(raw, id * 3 + 2)),
                    }
                });
                Linear {
                    name,
                    inputs,
                    outputs,
                    adapter,
                }
            };
            let made: Vec<Linear> = linears(plan).into_iter().map(&mut layer).collect();
            Rc::new(block(made))
        })
        .collect();
    (blocks, trained, extra)
}

fn block(made: Vec<Linear>) -> Block {
    let by_name = |name: &str| made.iter().find(|linear| linear.name == name).cloned();
    let or_none = |name: &'static str| {
        by_name(name).unwrap_or(Linear {
            name,
            inputs: 1,
            outputs: 1,
            adapter: None,
        })
    };
    Block {
        q: or_none("q_proj"),
        k: or_none("k_proj"),
        v: or_none("v_proj"),
        o: or_none("o_proj"),
        gate: or_none("gate_proj"),
        up: or_none("up_proj"),
        down: or_none("down_proj"),
        qkv: by_name("qkv_proj"),
        gate_up: by_name("gate_up_proj"),
    }
}
