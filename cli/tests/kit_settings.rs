//! A sweep file and the kit know the same settings: one that a sweep may give and a rehearsal refuses would keep that
//! sweep from ever being rehearsed. Reads the kit's source; whether the values mean the same is not looked at here.

use jobs::spec::setting_names;

const RECIPE: &str = include_str!("../../jobs/kit/step/recipe.py");

#[test]
fn the_kit_knows_every_setting_of_a_sweep_file() {
    let is_field = |name: &str| RECIPE.contains(&format!("\n    {name}: "));
    let left_alone = RECIPE
        .split_once("LEFT_ALONE = (")
        .and_then(|(_, rest)| rest.split_once(')'))
        .map(|(names, _)| names)
        .expect("the kit's list");
    let is_left_alone = |name: &str| left_alone.contains(&format!("\"{name}\""));
    let unknown: Vec<&str> = setting_names()
        .filter(|name| !is_field(name) && !is_left_alone(name))
        .collect();
    assert_eq!(unknown, Vec::<&str>::new());
}
