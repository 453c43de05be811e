//! `sweep vram ...` through the binary: the promised names in its JSON, the library's own numbers, and what each wrong
//! word is told. One file for each verb.

mod advise;
mod evaluate;
mod known;
mod predict;
mod refusals;
mod replay;
mod report;
mod said;
