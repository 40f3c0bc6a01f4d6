//! Data-parallel primitives, by moving lists of lanes about.

use super::support::{PARTIAL, changed, hash};
use crate::harness::Case;
use vgpu_isa::wave::{VCC, Wave};

/// Where each lane takes its value from.
type Route = Vec<Option<usize>>;

/// The same rearrangement of each row of sixteen lanes.
fn rows(rearrange: impl Fn(Route) -> Route) -> Route {
    (0..4).flat_map(|row| rearrange((row * 16..row * 16 + 16).map(Some).collect())).collect()
}

/// Drops from the front and fills at the back.
fn shifted_left(mut lanes: Route, count: usize) -> Route {
    let length = lanes.len();
    lanes.drain(..count);
    lanes.resize(length, None);
    lanes
}

/// Fills at the front and drops from the back.
fn shifted_right(lanes: Route, count: usize) -> Route {
    std::iter::repeat_n(None, count).chain(lanes).take(if count < 16 { 16 } else { 64 }).collect()
}

fn controls() -> Vec<(String, Route)> {
    let wave: Route = (0..64).map(Some).collect();
    let mut controls = Vec::new();
    for quad in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 1, 3, 3], [2, 0, 0, 1]] {
        let text = format!("quad_perm:[{},{},{},{}]", quad[0], quad[1], quad[2], quad[3]);
        controls.push((text, (0..16).flat_map(|n| quad.map(|lane| Some(n * 4 + lane))).collect()));
    }
    for count in [1, 3, 15] {
        controls.push((format!("row_shl:{count}"), rows(|row| shifted_left(row, count))));
        controls.push((format!("row_shr:{count}"), rows(|row| shifted_right(row, count))));
        let rotated = |mut row: Route| {
            row.rotate_right(count);
            row
        };
        controls.push((format!("row_ror:{count}"), rows(rotated)));
    }
    controls.push((String::from("wave_shl:1"), shifted_left(wave.clone(), 1)));
    controls.push((String::from("wave_shr:1"), [vec![None], wave[..63].to_vec()].concat()));
    controls.push((String::from("wave_rol:1"), [&wave[1..], &wave[..1]].concat()));
    controls.push((String::from("wave_ror:1"), [&wave[63..], &wave[..63]].concat()));
    controls.push((String::from("row_mirror"), rows(|row| row.into_iter().rev().collect())));
    let half_mirror = |row: Route| row.chunks(8).flat_map(|half| half.iter().rev().copied()).collect();
    controls.push((String::from("row_half_mirror"), rows(half_mirror)));
    let broadcast = |sources: [Option<usize>; 4]| sources.into_iter().flat_map(|lane| [lane; 16]).collect();
    controls.push((String::from("row_bcast:15"), broadcast([None, Some(15), Some(31), Some(47)])));
    controls.push((String::from("row_bcast:31"), broadcast([None, None, Some(31), Some(31)])));
    for lane in [0, 5, 15] {
        let sources = [lane, 16 + lane, 32 + lane, 48 + lane].map(Some);
        controls.push((format!("row_newbcast:{lane}"), broadcast(sources)));
    }
    controls
}

/// What a lane gets: a value, or nothing at all.
fn arrived(route: &Route, lane: usize, exec: u64, masks: (u32, u32), bounded: bool) -> Option<Option<usize>> {
    let (row_mask, bank_mask) = masks;
    let on = exec >> lane & 1 == 1;
    let enabled = row_mask >> (lane / 16) & 1 == 1 && bank_mask >> (lane / 4 % 4) & 1 == 1;
    let source = route[lane].filter(|&from| exec >> from & 1 == 1);
    match source {
        _ if !on || !enabled => None,
        Some(from) => Some(Some(from)),
        None => bounded.then_some(None),
    }
}

struct Form {
    control: String,
    route: Route,
    exec: u64,
    masks: (u32, u32),
    bounded: bool,
}

impl Form {
    fn asm(&self, instruction: &str) -> String {
        let bound = if self.bounded { " bound_ctrl:0" } else { "" };
        let (row, bank) = self.masks;
        format!("{instruction} {} row_mask:{row:#x} bank_mask:{bank:#x}{bound}", self.control)
    }

    /// The value of the first source in a lane that is to be written.
    fn take(&self, lane: usize, value: impl Fn(usize) -> u64) -> Option<u64> {
        arrived(&self.route, lane, self.exec, self.masks, self.bounded).map(|from| from.map_or(0, value))
    }
}

type Change = fn(&mut Wave, &Wave, &Form);

const INSTRUCTIONS: &[(&str, Change)] = &[
    ("v_mov_b32_dpp v20, v4", |wave, before, form| {
        for lane in 0..64 {
            if let Some(a) = form.take(lane, |from| u64::from(before.v[4][from])) {
                wave.v[20][lane] = a as u32;
            }
        }
    }),
    ("v_sub_u32_dpp v4, v4, v6", |wave, before, form| {
        for lane in 0..64 {
            if let Some(a) = form.take(lane, |from| u64::from(before.v[4][from])) {
                wave.v[4][lane] = (a as u32).wrapping_sub(before.v[6][lane]);
            }
        }
    }),
    ("v_min_i16_dpp v20, v4, v6", |wave, before, form| {
        for lane in 0..64 {
            if let Some(a) = form.take(lane, |from| u64::from(before.v[4][from])) {
                let least = (a as i16).min(before.v[6][lane] as i16);
                wave.v[20][lane] = u32::from(least as u16);
            }
        }
    }),
    ("v_cndmask_b32_dpp v20, -v4, |v6|, vcc", |wave, before, form| {
        for lane in 0..64 {
            if let Some(a) = form.take(lane, |from| u64::from(before.v[4][from])) {
                let second = before.s64(VCC) >> lane & 1 == 1;
                wave.v[20][lane] = if second { before.v[6][lane] & 0x7FFF_FFFF } else { a as u32 ^ 0x8000_0000 };
            }
        }
    }),
    ("v_addc_co_u32_dpp v20, vcc, v4, v6, vcc", |wave, before, form| {
        let mut carries = 0;
        for lane in 0..64 {
            if let Some(a) = form.take(lane, |from| u64::from(before.v[4][from])) {
                let sum = a + u64::from(before.v[6][lane]) + (before.s64(VCC) >> lane & 1);
                wave.v[20][lane] = sum as u32;
                carries |= u64::from(sum >= 1 << 32) << lane;
            }
        }
        wave.set_s64(VCC, carries);
    }),
];

fn case(instruction: &str, form: Form, change: Change) -> Case {
    let exec = form.exec;
    Case::new(
        form.asm(instruction),
        move |machine| {
            machine.set_v(4, |lane| hash(lane as u64) as u32);
            machine.set_v(6, |lane| hash(lane as u64 + 64) as u32);
            machine.wave.set_s64(VCC, hash(128));
            machine.wave.set_exec(exec);
        },
        move |before, after| changed(before, after, |wave| change(wave, &before.wave, &form)),
    )
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (n, (control, route)) in controls().into_iter().enumerate() {
        let conditions = [
            (!0, (0xF, 0xF), false),
            (!0, (0xF, 0xF), true),
            (PARTIAL, (0xF, 0xF), n % 2 == 0),
            (!0, (0xA, 0x6), true),
        ];
        for (exec, masks, bounded) in conditions {
            let form = |(control, route): (&String, &Route)| Form {
                control: control.clone(),
                route: route.clone(),
                exec,
                masks,
                bounded,
            };
            for &(instruction, change) in INSTRUCTIONS {
                cases.push(case(instruction, form((&control, &route)), change));
            }
        }
        // 64 bits know one control only.
        if control.starts_with("row_newbcast") {
            let form = Form { control, route, exec: PARTIAL, masks: (0xF, 0xD), bounded: false };
            let change: Change = |wave, before, form| {
                for lane in 0..64 {
                    let pair = |from: usize| u64::from(before.v[4][from]) | u64::from(before.v[5][from]) << 32;
                    if let Some(a) = form.take(lane, pair) {
                        (wave.v[20][lane], wave.v[21][lane]) = (a as u32, (a >> 32) as u32);
                    }
                }
            };
            cases.push(case("v_mov_b64_dpp v[20:21], v[4:5]", form, change));
        }
    }
    cases
}
