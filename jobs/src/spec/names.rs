//! The names that the rest of a sweep file may refer to: settings and axes. Where those were not read without an
//! error, no reference is called unknown, as the name may be the one that is misspelt there.

use super::types::{Axes, Model, Params};

pub(crate) struct Names<'s> {
    /// The sweep has a `[model]`.
    pub trained: bool,
    /// Each trial's model has a name, which hosts may know it by.
    pub model_is_named: bool,
    pub axes: &'s Axes,
    /// The settings that every trial has.
    pub always: Vec<&'s str>,
    /// Settings and axes were read without an error.
    pub whole: bool,
}

impl<'s> Names<'s> {
    pub fn new(model: Option<&'s Model>, recipe: &'s Params, axes: &'s Axes, whole: bool) -> Self {
        let mut always: Vec<&str> = recipe.keys().map(String::as_str).collect();
        if let Some(model) = model {
            always.push("model");
            always.extend(model.settings.keys().map(String::as_str));
        }
        always.extend(axes.sure_names());
        Self {
            trained: model.is_some(),
            model_is_named: axes.sure_names().contains(&"model")
                || model.is_some_and(|model| model.name.is_some()),
            axes,
            always,
            whole,
        }
    }

    pub fn has_always(&self, name: &str) -> bool {
        self.always.contains(&name)
    }
}
