//! Which layers of a model attend within a sliding window, as its `config.json` says it in one of four ways: a list of
//! all layers, a pattern, the number of layers without, or nothing but a window. Refuses a list of another length than
//! the model's; says of an order that is no pattern that it is none.

use serde_json::Value;

use crate::architecture::{ArchitectureError, Family, bad};
use crate::fields::Fields;
use crate::hybrid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub window: Option<u64>,
    /// One layer in so many attends to everything; 0 where none does.
    pub full_every: u64,
    /// Whether that says it all.
    pub is_regular: bool,
}

impl Pattern {
    fn regular(window: Option<u64>, full_every: u64) -> Self {
        Self {
            window,
            full_every,
            is_regular: true,
        }
    }

    /// Of layers that slide or do not.
    fn of(window: Option<u64>, slides: impl Iterator<Item = bool> + Clone) -> Self {
        if slides.clone().all(|slides| !slides) {
            return Self::regular(None, 0);
        }
        let mut numbered = (1u64..).zip(slides.clone());
        let full_every = numbered.find(|(_, slides)| !slides).map_or(0, |(at, _)| at);
        let as_said = |at: u64| full_every == 0 || !at.is_multiple_of(full_every);
        let is_regular = (1u64..)
            .zip(slides)
            .all(|(at, slides)| slides == as_said(at));
        Self {
            is_regular,
            ..Self::regular(window, full_every)
        }
    }

    pub(crate) fn read(
        text: &Fields<'_>,
        family: Family,
        layers: u64,
    ) -> Result<Self, ArchitectureError> {
        let window = window(text, family)?;
        if family != Family::Unknown
            && let Some(types) = text.get("layer_types")
        {
            return listed(text, types, window, layers);
        }
        for field in [
            "sliding_window_pattern",
            "_sliding_window_pattern",
            "full_attention_interval",
        ] {
            if let Some(full_every) = text.optional(field)? {
                return Ok(Self::regular(window, full_every));
            }
        }
        let full_every = match family {
            Family::Gemma3 => 6,
            Family::Gemma2 => 2,
            Family::Unknown => hybrid::full_every(text),
            Family::Qwen2 | Family::Qwen3 if window.is_some() => {
                let without = whole(text, "max_window_layers")?.unwrap_or(28);
                return Ok(Self::of(window, (0..layers).map(|layer| layer >= without)));
            }
            // Every layer slides.
            _ => 0,
        };
        // Of smollm 3 those slide that do not rotate.
        let is_smollm = text.model_type() == Some("smollm3");
        Ok(Self {
            is_regular: !is_smollm || window.is_none(),
            ..Self::regular(window, full_every)
        })
    }
}

/// The window, where it is used at all.
fn window(text: &Fields<'_>, family: Family) -> Result<Option<u64>, ArchitectureError> {
    let name = text.model_type();
    let used = match text.get("use_sliding_window") {
        // These have one in their file that is not used.
        None => !matches!(family, Family::Qwen2 | Family::Qwen3) && name != Some("smollm3"),
        Some(Value::Bool(used)) => *used,
        Some(_) => {
            let field = text.name("use_sliding_window");
            return Err(bad(&field, "expected true or false"));
        }
    };
    let window = text.optional_to("sliding_window", 1 << 40)?;
    // Where the field is left out altogether, transformers has a window of 4,096 for these; null means none.
    let has_default = name == Some("mistral") || family.is_gemma();
    let left_out = has_default && !text.has("sliding_window");
    let window = if left_out { Some(4096) } else { window };
    Ok(window.filter(|_| used))
}

fn listed(
    text: &Fields<'_>,
    types: &Value,
    window: Option<u64>,
    layers: u64,
) -> Result<Pattern, ArchitectureError> {
    let field = text.name("layer_types");
    let names = types.as_array().map(|all| all.iter().map(Value::as_str));
    let names: Option<Vec<&str>> = names.and_then(Iterator::collect);
    let names = names.ok_or_else(|| bad(&field, "expected a list of names"))?;
    if names.len() as u64 != layers {
        let message = format!("{} names for {layers} layers", names.len());
        return Err(bad(&field, message));
    }
    let pattern = Pattern::of(
        window,
        names.iter().map(|name| *name == "sliding_attention"),
    );
    let known = |name: &&str| matches!(*name, "sliding_attention" | "full_attention");
    // A window that is not used makes all layers alike.
    Ok(Pattern {
        is_regular: (pattern.is_regular || window.is_none()) && names.iter().all(known),
        ..pattern
    })
}

/// A whole number that may be zero.
fn whole(text: &Fields<'_>, field: &str) -> Result<Option<u64>, ArchitectureError> {
    match text.get(field).map(Value::as_u64) {
        None => Ok(None),
        Some(Some(count)) => Ok(Some(count)),
        Some(None) => Err(bad(&text.name(field), "expected a whole number")),
    }
}
