//! Finding one's way in a sweep's document (`show --json`). Refuses documents that lack what they must have.

use serde_json::Value;

/// Every job, in order of trials and stages.
#[track_caller]
#[must_use]
pub fn jobs(document: &Value) -> Vec<&Value> {
    let trials = array(document, "trials");
    trials
        .iter()
        .flat_map(|trial| array(trial, "jobs"))
        .collect()
}

/// The job whose id ends so: `/3/train`.
#[track_caller]
#[must_use]
pub fn job<'d>(document: &'d Value, end: &str) -> &'d Value {
    let mut found = jobs(document)
        .into_iter()
        .filter(|job| text(job, "id").ends_with(end));
    found
        .next()
        .unwrap_or_else(|| panic!("no job {end} in {document:#}"))
}

/// Every attempt of a job, or of a whole sweep.
#[track_caller]
#[must_use]
pub fn attempts(of: &Value) -> Vec<&Value> {
    if of.get("attempts").is_some() {
        return array(of, "attempts").iter().collect();
    }
    jobs(of)
        .into_iter()
        .flat_map(|job| array(job, "attempts"))
        .collect()
}

/// A field that is text.
#[track_caller]
#[must_use]
pub fn text<'d>(of: &'d Value, field: &str) -> &'d str {
    of[field]
        .as_str()
        .unwrap_or_else(|| panic!("`{field}` is no text in {of:#}"))
}

/// Every job succeeded at its first attempt, and nothing else was tried.
#[track_caller]
pub fn all_succeeded(document: &Value) {
    for job in jobs(document) {
        assert_eq!(job["outcome"], "succeeded", "{job:#}");
        let attempts = attempts(job);
        assert_eq!(attempts.len(), 1, "{job:#}");
        assert_eq!(attempts[0]["outcome"], "succeeded", "{job:#}");
    }
}

#[track_caller]
fn array<'d>(of: &'d Value, field: &str) -> &'d Vec<Value> {
    of[field]
        .as_array()
        .unwrap_or_else(|| panic!("`{field}` is no list in {of:#}"))
}
