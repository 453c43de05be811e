//! The way from a file's bytes to a plan.

use super::Plan;
use super::expand::expand;
use crate::spec::{SpecErrors, parse};

/// [`parse`] and [`expand`], with every error at its place in the file.
pub fn load(file_name: &str, text: &[u8]) -> Result<Plan, SpecErrors> {
    let spec = parse(file_name, text)?;
    expand(spec).map_err(|e| SpecErrors::whole_file(file_name, e.message, None))
}
