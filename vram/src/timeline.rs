//! The drawing of `sweep vram explain --svg`: allocated and reserved memory over a stream's step, as one SVG. Draws what
//! was explained; replays nothing.

use std::fmt::Write as _;

use crate::Explanation;

/// Allocated (filled) and reserved (line) over the events of the step, its stages, the limit and the peak.
#[must_use]
pub fn timeline_svg(explained: &Explanation) -> String {
    const WIDTH: f64 = 860.0;
    const HEIGHT: f64 = 360.0;
    const LEFT: f64 = 64.0;
    const TOP: f64 = 40.0;
    let first = explained.timeline.first().map_or(0, |one| one.event) as f64;
    let last = explained.timeline.last().map_or(1, |one| one.event) as f64;
    let reserved = explained.timeline.iter().map(|one| one.reserved_mib);
    let most = reserved.fold(explained.limit_mib.unwrap_or(0.0), f64::max);
    let top = (most / 1024.0).ceil().max(1.0) * 1024.0;
    let across = |event: f64| LEFT + (event - first) / (last - first).max(1.0) * WIDTH;
    let up = |mib: f64| TOP + HEIGHT - mib / top * HEIGHT;
    let (width, height) = (LEFT + WIDTH + 24.0, TOP + HEIGHT + 40.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for gib in 0..=(top / 1024.0) as u32 {
        let y = up(f64::from(gib) * 1024.0);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{gib} GiB</text>",
            LEFT + WIDTH,
            LEFT - 6.0,
            y + 4.0,
        );
    }
    let mut area = format!("M{LEFT:.1},{:.1}", up(0.0));
    let mut line = String::new();
    for one in &explained.timeline {
        let x = across(one.event as f64);
        let _ = write!(area, " L{x:.1},{:.1}", up(one.allocated_mib));
        let head = if line.is_empty() { 'M' } else { 'L' };
        let _ = write!(line, "{head}{x:.1},{:.1} ", up(one.reserved_mib));
    }
    let _ = writeln!(
        svg,
        "<path d=\"{area} L{:.1},{:.1} Z\" fill=\"#aed6f1\"/>\n<path d=\"{line}\" fill=\"none\" stroke=\"#2471a3\"/>",
        LEFT + WIDTH,
        up(0.0),
    );
    for mark in explained.stages.iter().filter(|mark| mark.name != "end") {
        let x = across(mark.event as f64);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#999\" stroke-dasharray=\"3 3\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#555\">{}</text>",
            TOP + HEIGHT,
            x + 3.0,
            TOP + HEIGHT + 16.0,
            mark.name,
        );
    }
    if let Some(limit) = explained.limit_mib {
        let y = up(limit);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#c0392b\"/>\
             <text x=\"{LEFT}\" y=\"{:.1}\" fill=\"#c0392b\">limit {limit:.0} MiB</text>",
            LEFT + WIDTH,
            y - 4.0,
        );
    }
    let (x, y) = (
        across(explained.peak_event as f64),
        up(explained.replayed.allocated_mib),
    );
    let _ = writeln!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#c0392b\"/>\n<text x=\"{LEFT}\" y=\"20\">peak allocated \
         {:.1} MiB in {}, reserved {:.1} MiB</text>\n</svg>",
        explained.replayed.allocated_mib, explained.peak_stage, explained.replayed.reserved_mib,
    );
    svg
}
