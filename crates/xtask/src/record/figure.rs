//! The picture in the README: latency bars on a logarithmic axis.
//!
//! An SVG with a style sheet of its own, so that it follows the reader's light or dark setting.

use std::fmt::Write;

use super::{Demo, Online, is_lower_bound, time};

const WIDTH: f64 = 840.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 64.0;
const BAR: f64 = 15.0;
const GAP: f64 = 5.0;
const GROUP_GAP: f64 = 20.0;
/// The axis, in microseconds: 10 ms to 10 s, extended where a bar lies outside.
const SHORTEST_US: f64 = 1e4;
const LONGEST_US: f64 = 1e7;

const STYLE: &str = "\
text { font: 13px system-ui, sans-serif; fill: #24292f } \
.title { font-weight: 600; font-size: 15px } .small { font-size: 11px; fill: #57606a } \
.axis { stroke: #d0d7de } .alone { fill: #8c959f } .without { fill: #cf4a3c } .with { fill: #2c7be5 } \
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 } .axis { stroke: #3d444d } \
.without { fill: #f0776a } .with { fill: #58a6ff } }";

/// Draws the latencies of the three arms.
pub(super) fn draw(demo: &Demo) -> String {
    let arms = [
        ("alone", "alone", &demo.alone),
        ("without", "beside training", &demo.without),
        ("with", "with gpreempt", &demo.with),
    ];
    let all = || arms.iter().flat_map(|(_, _, online)| percentiles(online)).map(|(_, us)| us);
    let shortest = all().fold(SHORTEST_US, |least, us| if us < least { us / 2.0 } else { least });
    let longest = all().fold(LONGEST_US, |most, us| if us > most { us * 2.0 } else { most });
    let x = |us: f64| LEFT + (WIDTH - LEFT - RIGHT) * (us / shortest).ln() / (longest / shortest).ln();

    let mut bars = String::new();
    let mut y = TOP;
    for (class, label, online) in arms {
        let middle = y + 1.5 * BAR + GAP + 4.0;
        // Writing to a string does not fail.
        let _ = writeln!(bars, r#"<text x="{:.0}" y="{middle:.0}" text-anchor="end">{label}</text>"#, LEFT - 48.0);
        for (name, us) in percentiles(online) {
            let (end, text) = (x(us), y + BAR - 3.0);
            let label = time(online, us).replace(">=", "≥");
            let opacity = if is_lower_bound(online, us) { r#" fill-opacity="0.65""# } else { "" };
            let _ = writeln!(
                bars,
                r#"<text class="small" x="{:.0}" y="{text:.0}" text-anchor="end">{name}</text><rect class="{class}" x="{LEFT}" y="{y:.0}" width="{:.1}" height="{BAR}" rx="2"{opacity}/><text class="small" x="{:.1}" y="{text:.0}">{label}</text>"#,
                LEFT - 8.0,
                end - LEFT,
                end + 6.0,
            );
            y += BAR + GAP;
        }
        y += GROUP_GAP;
    }
    let bottom = y - GROUP_GAP + 4.0;
    let height = bottom + 44.0;
    let ticks = ticks(shortest, longest, x, bottom);
    let note = "Requests of twenty short kernels beside a process that keeps the GPU full of 60 ms kernels.";
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="Latency of online requests">
<style>{STYLE}</style>
<text class="title" x="16" y="24">Latency of online requests, {}, logarithmic</text>
<text class="small" x="16" y="42">{note}</text>
{ticks}{bars}</svg>
"#,
        demo.kind
    )
}

fn percentiles(online: &Online) -> [(&'static str, f64); 3] {
    [("p50", online.p50_us), ("p95", online.p95_us), ("p99", online.p99_us)]
}

/// A line and a label for each power of ten.
fn ticks(shortest: f64, longest: f64, x: impl Fn(f64) -> f64, bottom: f64) -> String {
    let mut text = String::new();
    for power in 0..9 {
        let us = 10f64.powi(power);
        if us < shortest || us > longest {
            continue;
        }
        let label = match power {
            0..3 => format!("{us:.0} us"),
            3..6 => format!("{:.0} ms", us / 1e3),
            _ => format!("{:.0} s", us / 1e6),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            r#"<line class="axis" x1="{0:.1}" y1="{TOP}" x2="{0:.1}" y2="{bottom:.0}"/><text class="small" x="{0:.1}" y="{1:.0}" text-anchor="middle">{label}</text>"#,
            x(us),
            bottom + 18.0,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::example;

    /// The widths of all bars, in order.
    fn widths(svg: &str) -> Vec<f64> {
        let rects = svg.split("<rect").skip(1);
        rects.map(|rect| rect.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn longer_latencies_have_longer_bars_and_all_fit() {
        let svg = draw(&example());
        let widths = widths(&svg);
        assert_eq!(widths.len(), 9);
        assert!(widths[0] < widths[1] && widths[1] < widths[2], "p50, p95, p99 of one arm grow: {widths:?}");
        assert!(widths[4] > widths[1] && widths[4] > widths[7], "the arm without gpreempt is the longest: {widths:?}");
        assert!(widths.iter().all(|width| (0.0..=WIDTH - LEFT - RIGHT).contains(width)), "{widths:?}");
    }

    #[test]
    fn latencies_of_microseconds_and_minutes_extend_the_axis() {
        let mut demo = example();
        demo.alone.p50_us = 3.0;
        demo.without.p99_us = 6e7;
        assert!(widths(&draw(&demo)).iter().all(|width| (0.0..=WIDTH - LEFT - RIGHT).contains(width)));
    }

    #[test]
    fn lower_bounds_are_marked() {
        let svg = draw(&example());
        assert_eq!(svg.matches('≥').count(), 2);
        assert_eq!(svg.matches("fill-opacity").count(), 2);
    }
}
