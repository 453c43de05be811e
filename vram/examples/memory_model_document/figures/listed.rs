//! Rules that are a published table: gigabytes by the size in a model's name and the bits of its weights
//! (data/rivals/llama-factory.json, unsloth.json). Interpolates nothing, and knows nothing of rank, length or batch.

use serde::Deserialize;

/// Cards are sold by it: an 8 GB card has 8,192 MiB.
const MIB_PER_GB: f64 = 1024.0;
/// How far a size may be from a listed one and still be that one: an 8B model is read as the 7B column.
const SAME: f64 = 0.15;

#[derive(Deserialize)]
pub struct Listed {
    pub name: String,
    pub source: String,
    #[serde(rename = "where")]
    pub place: String,
    pub version: String,
    methods: Vec<Method>,
}

#[derive(Deserialize)]
struct Method {
    bits: u32,
    /// Billions of parameters, gigabytes.
    listed: Vec<(f64, f64)>,
    /// Gigabytes for each billion, where the authors give it for sizes that they do not list.
    per_billion: Option<f64>,
}

impl Listed {
    pub fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("read a published table: {error}"))
    }

    pub fn mib(&self, model: &str, bits: u32, reading: Reading) -> Option<f64> {
        let billions = billions(model)?;
        let method = self.methods.iter().find(|method| method.bits == bits)?;
        Some(method.gigabytes(billions, reading)? * MIB_PER_GB)
    }
}

/// What is said of a size that is not listed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The formula beside the table; without one the next larger size, where a smaller one is listed too.
    AsPublished,
    /// The next larger size, whatever the formula says.
    NextLarger,
}

impl Method {
    fn gigabytes(&self, billions: f64, reading: Reading) -> Option<f64> {
        let away = |size: f64| (billions / size - 1.0).abs();
        let near = self.listed.iter().filter(|(size, _)| away(*size) <= SAME);
        if let Some((_, gb)) = near.min_by(|a, b| away(a.0).total_cmp(&away(b.0))) {
            return Some(*gb);
        }
        let above = self.listed.iter().find(|(size, _)| *size > billions);
        if reading == Reading::NextLarger {
            return above.map(|(_, gb)| *gb);
        }
        if let Some(each) = self.per_billion {
            return Some(each * billions);
        }
        let below = self.listed.iter().any(|(size, _)| *size < billions);
        above.filter(|_| below).map(|(_, gb)| *gb)
    }
}

/// The size that a model's name carries: `Llama-3.1-8B-Instruct` is an 8B, `SmolLM2-135M` a 0.135B.
fn billions(model: &str) -> Option<f64> {
    model.to_lowercase().rsplit('-').find_map(|word| {
        let (number, unit) = word.split_at_checked(word.len().checked_sub(1)?)?;
        let number: f64 = number.parse().ok()?;
        match unit {
            "b" => Some(number),
            "m" => Some(number / 1000.0),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_from_a_models_name() {
        let sizes = [
            "gemma-3-4b-it",
            "Llama-3.1-8B-Instruct",
            "SmolLM2-135M",
            "phi",
        ]
        .map(billions);
        assert_eq!(sizes, [Some(4.0), Some(8.0), Some(0.135), None]);
    }

    #[test]
    fn a_size_that_is_not_listed_is_answered_as_published() {
        let table = |rest: &str| {
            let text = format!(
                r#"{{"name": "n", "source": "s", "where": "w", "version": "v",
                "methods": [{{"bits": 4, "listed": [[3, 3.5], [7, 5]] {rest}}}]}}"#
            );
            Listed::read(&text).unwrap()
        };
        let plain = |model| {
            table("")
                .mib(model, 4, Reading::AsPublished)
                .map(|mib| mib / 1024.0)
        };
        assert_eq!(plain("x-7b"), Some(5.0));
        assert_eq!(plain("x-8b"), Some(5.0));
        assert_eq!(plain("x-4b"), Some(5.0));
        assert_eq!(plain("x-1b"), None);
        assert_eq!(plain("x-30b"), None);
        let formula = table(r#", "per_billion": 0.5"#);
        assert_eq!(formula.mib("x-4b", 4, Reading::AsPublished), Some(2048.0));
        assert_eq!(formula.mib("x-4b", 4, Reading::NextLarger), Some(5120.0));
        assert_eq!(formula.mib("x-4b", 16, Reading::AsPublished), None);
    }
}
