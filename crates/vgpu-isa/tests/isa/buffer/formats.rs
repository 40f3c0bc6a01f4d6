//! Loads and stores that convert, against numbers worked out by hand.

use super::resource;
use crate::access::forms::{SOME, stops};
use crate::access::{Place, registers, whole};
use crate::harness::{Case, Machine};
use vgpu_isa::inst::Stop;

/// X, Y, Z and W as they are.
const XYZW: u32 = 4 | 5 << 3 | 6 << 6 | 7 << 9;

fn control(selects: u32, data: u32, number: u32) -> u32 {
    selects | number << 12 | data << 15
}

const fn f(value: f32) -> u32 {
    value.to_bits()
}

/// Data format, number format, destination selects, record, results, results as halves.
type Entry = (u32, u32, u32, &'static [u8], [u32; 4], [u32; 4]);

const LOADS: &[Entry] = &[
    // 8_8_8_8 unorm, snorm, uscaled, sscaled, uint, sint
    (10, 0, XYZW, &[0xFF, 0, 0x33, 0x80], [f(1.0), 0, f(0.2), f(128.0 / 255.0)], [0x3C00, 0, 0x3266, 0x3804]),
    (10, 1, XYZW, &[0x7F, 0x80, 0x81, 0], [f(1.0), f(-1.0), f(-1.0), 0], [0x3C00, 0xBC00, 0xBC00, 0]),
    (10, 2, XYZW, &[0xFF, 1, 2, 0], [f(255.0), f(1.0), f(2.0), 0], [0x5BF8, 0x3C00, 0x4000, 0]),
    (10, 3, XYZW, &[0xFF, 0x80, 2, 0], [f(-1.0), f(-128.0), f(2.0), 0], [0xBC00, 0xD800, 0x4000, 0]),
    (10, 4, XYZW, &[0xFF, 0x80, 2, 0], [255, 128, 2, 0], [255, 128, 2, 0]),
    (10, 5, XYZW, &[0xFF, 0x80, 2, 0], [!0, !127, 2, 0], [0xFFFF, 0xFF80, 2, 0]),
    // 8: what is missing is zero, and one in W
    (1, 4, XYZW, &[7], [7, 0, 0, 1], [7, 0, 0, 1]),
    (1, 0, XYZW, &[255], [f(1.0), 0, 0, f(1.0)], [0x3C00, 0, 0, 0x3C00]),
    // 8_8 and selects: Y, X, one, zero
    (3, 4, 5 | 4 << 3 | 1 << 6, &[3, 9], [9, 3, 1, 0], [9, 3, 1, 0]),
    // 16 float, 16_16 unorm, 16_16_16_16 float
    (2, 7, XYZW, &[0x00, 0xC0], [f(-2.0), 0, 0, f(1.0)], [0xC000, 0, 0, 0x3C00]),
    (5, 0, XYZW, &[0xFF, 0xFF, 0, 0], [f(1.0), 0, 0, f(1.0)], [0x3C00, 0, 0, 0x3C00]),
    (
        12,
        7,
        XYZW,
        &[0, 0x3C, 1, 0, 0, 0x7C, 0, 0x80],
        [f(1.0), 0x3380_0000, 0x7F80_0000, 1 << 31],
        [0x3C00, 1, 0x7C00, 0x8000],
    ),
    // 32, 32_32, 32_32_32, 32_32_32_32
    (4, 7, XYZW, &[0, 0, 0x80, 0x40], [f(4.0), 0, 0, f(1.0)], [0x4400, 0, 0, 0x3C00]),
    (11, 4, XYZW, &[1, 2, 3, 4, 5, 6, 7, 8], [0x0403_0201, 0x0807_0605, 0, 1], [0x0201, 0x0605, 0, 1]),
    (13, 5, XYZW, &[1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 3, 0, 0, 0], [1, !0, 3, 1], [1, 0xFFFF, 3, 1]),
    (14, 4, XYZW, &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0], [1, 2, 3, 4], [1, 2, 3, 4]),
    // 2_10_10_10 (W highest), 10_10_10_2 (X lowest), 10_11_11, 11_11_10
    (8, 4, XYZW, &[0x01, 0x08, 0x30, 0x80], [1, 2, 3, 2], [1, 2, 3, 2]),
    (9, 4, XYZW, &[0x05, 0x20, 0xC0, 0x00], [1, 1, 2, 3], [1, 1, 2, 3]),
    (6, 7, XYZW, &[0xC0, 0x03, 0x20, 0x78], [f(1.0), f(2.0), f(1.0), f(1.0)], [0x3C00, 0x4000, 0x3C00, 0x3C00]),
    (7, 4, XYZW, &[0x01, 0x08, 0x60, 0x00], [1, 2, 3, 1], [1, 2, 3, 1]),
];

fn place(m: &mut Machine, control: u32, record: &[u8]) {
    resource(m, 0x1000, 0, 0x100, control, 0);
    m.poke(0x1010, record);
}

/// MUBUF takes the format from the resource. MTBUF has one of its own, and the resource another one.
fn form(typed: bool, data: u32, number: u32) -> (&'static str, String, u32) {
    if typed {
        ("tbuffer", format!(" dfmt:{data}, nfmt:{number},"), control(0, 4, 5))
    } else {
        ("buffer", String::new(), control(0, data, number))
    }
}

fn loads() -> Vec<Case> {
    let mut cases = Vec::new();
    for (typed, &(data, number, selects, record, results, halves)) in
        [false, true].iter().flat_map(|&typed| LOADS.iter().map(move |entry| (typed, entry)))
    {
        let (prefix, format, control) = form(typed, data, number);
        let setup = move |m: &mut Machine| {
            place(m, selects | control, record);
            m.wave.set_exec(SOME);
        };
        for (suffix, count) in [("x", 1), ("xy", 2), ("xyz", 3), ("xyzw", 4)] {
            let whole_registers = registers('v', 8, count);
            let full = format!("{prefix}_load_format_{suffix} {whole_registers}, off, s[4:7],{format} 0 offset:16");
            cases.push(whole(full, setup, move |state| {
                for lane in state.active() {
                    for n in 0..count {
                        state.v[8 + n][lane] = results[n];
                    }
                }
            }));
            let packed = registers('a', 8, count.div_ceil(2));
            let half = format!("{prefix}_load_format_d16_{suffix} {packed}, off, s[4:7],{format} 0 offset:16");
            cases.push(whole(half, setup, move |state| {
                for lane in state.active() {
                    for (n, half) in halves.iter().enumerate().take(count) {
                        let register = &mut state.a[8 + n / 2][lane];
                        *register = if n % 2 == 0 { *half } else { *register + half * 65536 };
                    }
                }
            }));
        }
        if typed {
            continue;
        }
        cases.push(whole("buffer_load_format_d16_hi_x v8, off, s[4:7], 0 offset:16", setup, move |state| {
            for lane in state.active() {
                state.v[8][lane] = halves[0] * 65536;
            }
        }));
    }
    cases
}

/// Data format, number format, registers, record.
const STORES: &[(u32, u32, [u32; 4], &[u8])] = &[
    (10, 0, [f(1.0), f(-3.0), f(0.5), f(7.0)], &[255, 0, 128, 255]),
    (10, 1, [f(1.0), f(-1.0), f(-9.0), 0x7FC0_0000], &[127, 0x81, 0x81, 0]),
    (10, 2, [f(300.0), f(-1.0), f(2.9), f(254.0)], &[255, 0, 2, 254]),
    (10, 3, [f(300.0), f(-300.0), f(-2.9), f(5.0)], &[127, 0x80, 0xFE, 5]),
    (10, 4, [300, 5, 255, 0], &[255, 5, 255, 0]),
    (10, 5, [300, !299, !0, 5], &[127, 0x80, 0xFF, 5]),
    (12, 7, [f(1.0), f(-2.0), f(65536.0), f(0.1)], &[0, 0x3C, 0, 0xC0, 0, 0x7C, 0x66, 0x2E]),
    (14, 4, [1, 2, 3, 4], &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]),
    (8, 4, [1, 2, 3, 2], &[0x01, 0x08, 0x30, 0x80]),
    (6, 7, [f(1.0), f(2.0), f(1.0), 0], &[0xC0, 0x03, 0x20, 0x78]),
];

fn stores() -> Vec<Case> {
    let mut cases = Vec::new();
    for (typed, &(data, number, values, record)) in
        [false, true].iter().flat_map(|&typed| STORES.iter().map(move |entry| (typed, entry)))
    {
        let (prefix, format, control) = form(typed, data, number);
        let setup = move |m: &mut Machine| {
            place(m, XYZW | control, &[0xEE; 16]);
            for (n, value) in values.into_iter().enumerate() {
                m.set_v(8 + n, |_| value);
            }
        };
        let asm = format!("{prefix}_store_format_xyzw v[8:11], off, s[4:7],{format} 0 offset:16");
        cases.push(whole(asm, setup, move |state| state.write(0, Place::Global(0x1010), record)));
    }
    // Fewer components, in registers and in halves, with formats of their size.
    let formats: [(&str, usize, u32, u32, &[u8]); 3] = [
        ("x", 1, 2, 7, &[0, 0x3C]),
        ("xy", 2, 5, 7, &[0, 0x3C, 0, 0xC0]),
        ("xyz", 3, 13, 7, &[0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0, 0, 0, 0x80, 0x40]),
    ];
    for (typed, (suffix, count, data, number, record)) in
        [false, true].iter().flat_map(|&typed| formats.map(|entry| (typed, entry)))
    {
        let (prefix, format, control) = form(typed, data, number);
        let setup = move |m: &mut Machine| {
            place(m, XYZW | control, &[0xEE; 16]);
            for (n, value) in [f(1.0), f(-2.0), f(4.0)].into_iter().enumerate() {
                m.set_v(8 + n, |_| value);
            }
            m.set_v(20, |_| 0xC000_3C00);
            m.set_v(21, |_| 0x4400);
        };
        let write = move |state: &mut crate::access::State| state.write(0, Place::Global(0x1010), record);
        let data = registers('v', 8, count);
        let asm = format!("{prefix}_store_format_{suffix} {data}, off, s[4:7],{format} 0 offset:16");
        cases.push(whole(asm, setup, write));
        let data = registers('v', 20, count.div_ceil(2));
        let asm = format!("{prefix}_store_format_d16_{suffix} {data}, off, s[4:7],{format} 0 offset:16");
        cases.push(whole(asm, setup, write));
    }
    for typed in [false, true] {
        let (prefix, format, control) = form(typed, 12, 5);
        let quads = move |m: &mut Machine| {
            place(m, XYZW | control, &[0xEE; 16]);
            m.set_v(20, |_| 0xFFFF_0001);
            m.set_v(21, |_| 0x0004_8000);
        };
        let asm = format!("{prefix}_store_format_d16_xyzw v[20:21], off, s[4:7],{format} 0 offset:16");
        cases.push(whole(asm, quads, |state| {
            state.write(0, Place::Global(0x1010), &[1, 0, 0xFF, 0xFF, 0, 0x80, 4, 0]);
        }));
    }
    let high = |m: &mut Machine| {
        place(m, control(XYZW, 2, 4), &[0xEE; 16]);
        m.set_v(20, |_| 0x1234_0001);
    };
    cases.push(whole("buffer_store_format_d16_hi_x v20, off, s[4:7], 0 offset:16", high, |state| {
        state.write(0, Place::Global(0x1010), &[0x34, 0x12]);
    }));
    cases
}

/// Outside everything is zero except a selected one; formats that do not exist stop the wave.
fn edges() -> Vec<Case> {
    let outside = |m: &mut Machine| resource(m, 0x1000, 0, 16, control(1 | 5 << 3, 10, 4), 0);
    let asm = "buffer_load_format_xy v[8:9], off, s[4:7], 0 offset:16";
    let store = "buffer_store_format_x v8, off, s[4:7], 0 offset:16";
    let load = "buffer_load_format_x v8, off, s[4:7], 0 offset:16";
    let to_lds = |m: &mut Machine| {
        place(m, control(XYZW, 1, 5), &[0x80]);
        m.wave.s[124] = 0x40;
    };
    vec![
        whole(asm, outside, |state| {
            state.v[8] = [1; 64];
            state.v[9] = [0; 64];
        }),
        whole(store, outside, |_| {}),
        whole("buffer_load_format_x off, s[4:7], 0 offset:16 lds", to_lds, |state| {
            for lane in 0..64 {
                state.write(lane, Place::Lds(0x50 + 4 * lane), &(-128_i32).to_le_bytes());
            }
        }),
        stops(
            load,
            |m| resource(m, 0x1000, 0, 16, XYZW, 0),
            Stop::Illegal { mnemonic: Some("buffer_load_format_x"), words: [0xE000_0010, 0x8001_0800] },
        ),
    ]
}

pub(super) fn cases() -> Vec<Case> {
    [loads(), stores(), edges()].into_iter().flatten().collect()
}
