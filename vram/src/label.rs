//! What the labels of a stream's blocks say: the module and the line of code, as a rehearsal writes them, and what a
//! block of the output matrix's size is. Guesses nothing of a label that it cannot read.

use crate::recipe::Recipe;
use crate::tape::Part;

/// `MODULE LINE` as a rehearsal labels its blocks; anything else is no module's.
pub(crate) fn split(label: &str) -> (&str, &str) {
    if label.contains(".py:") || label.contains("backward:") {
        label.split_once(' ').unwrap_or((label, ""))
    } else {
        (label, "")
    }
}

/// `layers.7.mlp` as `layers.*.mlp`: the same line in each layer.
pub(crate) fn any_layer(module: &str) -> String {
    let mut parts: Vec<&str> = module.split('.').collect();
    for at in 1..parts.len() {
        if parts[at - 1] == "layers" && parts[at].bytes().all(|byte| byte.is_ascii_digit()) {
            parts[at] = "*";
        }
    }
    parts.join(".")
}

/// Of blocks with the size of the output matrix: whether it is the matrix, or the copy of it that the offload makes.
pub(crate) fn note(
    recipe: &Recipe,
    bytes: u64,
    (module, line): (&str, &str),
    in_step: bool,
) -> Option<String> {
    let arch = recipe.architecture()?;
    let half = arch.vocab.checked_mul(arch.hidden)?.checked_mul(2)?;
    if bytes != half && bytes != half.saturating_mul(2) {
        return None;
    }
    if !in_step {
        let whole = if arch.tied {
            "lm_head and the embedding, one matrix"
        } else {
            "lm_head or the embedding"
        };
        return Some(whole.to_owned());
    }
    let offloads = recipe.has_fix("save_on_cpu") && !recipe.has_fix("save_on_cpu_skips_weights");
    let by_hooks = by_offload(module, line);
    // Of a stream without labels, if there is no other block of this size: an fp32 head has a half-precision copy.
    let bare = line.is_empty() && module.ends_with(" bytes");
    let by_size = bare && recipe.has_fix("bf16_lm_head") && bytes == half;
    let copied = offloads && (module == Part::OffloadCopies.name() || by_hooks || by_size);
    copied.then(|| "lm_head copied by save_on_cpu's offload".to_owned())
}

/// During the step the kit's hooks are the only lines of its fixes that run in the head (jobs/kit/step/fixes.py).
fn by_offload(module: &str, line: &str) -> bool {
    (module.ends_with("lm_head") || module == "head") && line.contains("fixes.py:")
}

/// The label of a block of the step, and in words what it is where that is known from it alone.
pub(crate) fn in_words(label: &str) -> String {
    let (module, line) = split(label);
    if by_offload(module, line) {
        format!("{label} (copied by save_on_cpu's offload)")
    } else {
        label.to_owned()
    }
}

/// The module of a label; layers are told apart by their number, and what is in them is not.
pub(crate) fn module_of(label: &str) -> String {
    let first = label.split(' ').next().unwrap_or_default();
    let layer: Vec<&str> = first.split('.').take(2).collect();
    if layer.first() == Some(&"layers") {
        return layer.join(".");
    }
    split(label).0.to_owned()
}
