//! Kernels on integers and doubles, where every bit is known.

use kfd_runtime::Launch;

use super::job::{Argument, Inputs, Job};
use super::object;
use kfd_runtime::Placement::{Gtt, Uncached, UserMemory, Vram};

pub(super) fn fill(seed: u64) -> Job {
    const COUNT: usize = 5000;
    let pattern = Inputs::new(seed, "fill").word();
    let expected: Vec<u32> = (0..COUNT as u32).map(|item| pattern ^ item).collect();
    Job {
        object: object!("fill"),
        kernel: "fill",
        launch: Launch::linear(COUNT.div_ceil(256) as u32, 256),
        arguments: vec![Argument::output(UserMemory, &expected), Argument::U32(pattern), Argument::U32(COUNT as u32)],
    }
}

pub(super) fn histogram(seed: u64) -> Job {
    const COUNT: usize = 20_000;
    let values = Inputs::new(seed, "histogram").many(COUNT, |inputs| (inputs.word() >> 24) as u8);
    let mut bins = [0u32; 256];
    for &value in &values {
        bins[usize::from(value)] += 1;
    }
    Job {
        object: object!("histogram"),
        kernel: "histogram",
        launch: Launch::linear(COUNT.div_ceil(256) as u32, 256),
        arguments: vec![Argument::input(Vram, &values), Argument::output(Vram, &bins), Argument::U32(COUNT as u32)],
    }
}

pub(super) fn exactly_once(_: u64) -> Job {
    const GROUPS: usize = 500;
    const LANES: usize = 64;
    Job {
        object: object!("exactly_once"),
        kernel: "exactly_once",
        launch: Launch::linear(GROUPS as u32, LANES as u16),
        arguments: vec![Argument::output(Gtt, &[1u32; GROUPS]), Argument::output(Vram, &vec![1u32; GROUPS * LANES])],
    }
}

/// Where the kernel `walk` is after so many steps.
pub(super) fn walk_result(item: u32, steps: u32) -> u32 {
    // A step is a product and a sum, and so are many steps: those of twice as many follow from those of half.
    let (mut factor, mut sum) = (1_664_525u32, 1_013_904_223u32);
    let (mut value, mut left) = (item, steps);
    while left > 0 {
        if left & 1 == 1 {
            value = value.wrapping_mul(factor).wrapping_add(sum);
        }
        sum = sum.wrapping_mul(factor).wrapping_add(sum);
        factor = factor.wrapping_mul(factor);
        left >>= 1;
    }
    value
}

pub(super) fn walk(_: u64) -> Job {
    const GROUPS: u32 = 8;
    const LANES: u32 = 64;
    // The kernel looks up after each 64 steps.
    const STEPS: u32 = 64 * 200;
    let expected: Vec<u32> = (0..GROUPS * LANES).map(|item| walk_result(item, STEPS)).collect();
    Job {
        object: object!("walk"),
        kernel: "walk",
        launch: Launch::linear(GROUPS, LANES as u16),
        arguments: vec![
            Argument::output(Uncached, &expected),
            Argument::output(Uncached, &[STEPS; (GROUPS * LANES) as usize]),
            Argument::input(Uncached, &[1u32]),
            Argument::U32(STEPS),
        ],
    }
}

pub(super) fn counter(seed: u64) -> Job {
    const GROUPS: u32 = 8;
    const LANES: u32 = 64;
    let before = Inputs::new(seed, "counter").word();
    let increments = 50;
    let added = GROUPS * increments * (LANES * (LANES + 1) / 2);
    Job {
        object: object!("counter"),
        kernel: "counter",
        launch: Launch::linear(GROUPS, LANES as u16),
        arguments: vec![
            Argument::changed(Uncached, &[before], &[before.wrapping_add(added)]),
            Argument::U32(increments),
        ],
    }
}

fn wide_result(value: i64) -> (i64, f64) {
    let mut mixed = value.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^= mixed >> 29;
    let divisor = (mixed >> 40).cast_signed() + 1;
    let x = (value >> 16) as f64;
    (value / divisor + (mixed % 1_000_003).cast_signed(), (x * x + 1.0).sqrt() / divisor as f64)
}

pub(super) fn wide(seed: u64) -> Job {
    const COUNT: usize = 3000;
    let mut values = Inputs::new(seed, "wide").many(COUNT, |inputs| {
        let bits = inputs.wide().cast_signed();
        // All magnitudes, not only those near the largest.
        bits >> (inputs.word() % 63)
    });
    values[..4].copy_from_slice(&[0, -1, i64::MIN, i64::MAX]);
    let (integers, doubles): (Vec<i64>, Vec<f64>) = values.iter().map(|&value| wide_result(value)).unzip();
    Job {
        object: object!("wide"),
        kernel: "wide",
        launch: Launch::linear(COUNT.div_ceil(256) as u32, 256),
        arguments: vec![
            Argument::input(Gtt, &values),
            Argument::output(Gtt, &integers),
            Argument::output(Gtt, &doubles),
            Argument::U32(COUNT as u32),
        ],
    }
}

fn scratch_result(value: u32) -> u32 {
    const SLOTS: u32 = 128;
    let mut slots: Vec<u32> = (0..SLOTS).map(|slot| slot.wrapping_mul(0x0100_0193)).collect();
    let mut value = value;
    for step in 0..64u32 {
        let from = (value % SLOTS) as usize;
        let to = (value >> 8 & (SLOTS - 1)) as usize;
        let kept = slots[from];
        slots[from] = slots[to].wrapping_add(step);
        slots[to] = kept ^ value;
        value = value.wrapping_mul(1_664_525).wrapping_add(kept);
    }
    slots.iter().fold(value, |sum, slot| sum.rotate_left(1) ^ slot)
}

pub(super) fn scratch(seed: u64) -> Job {
    const COUNT: usize = 1000;
    let values = Inputs::new(seed, "scratch").many(COUNT, Inputs::word);
    let expected: Vec<u32> = values.iter().map(|&value| scratch_result(value)).collect();
    Job {
        object: object!("scratch"),
        kernel: "scratch",
        launch: Launch::linear(COUNT.div_ceil(64) as u32, 64),
        arguments: vec![Argument::input(Gtt, &values), Argument::output(Gtt, &expected), Argument::U32(COUNT as u32)],
    }
}

fn table_entry(value: u32) -> u32 {
    const PRIMES: [u32; 8] = [2, 3, 5, 7, 11, 13, 17, 19];
    let index = value / 3 % 8;
    match value % 3 {
        0 => PRIMES[index as usize],
        1 => index * index,
        _ => 1 << index,
    }
}

pub(super) fn tables(seed: u64) -> Job {
    const COUNT: usize = 700;
    let values = Inputs::new(seed, "tables").many(COUNT, Inputs::word);
    let expected: Vec<u32> = values.iter().map(|&value| table_entry(value)).collect();
    Job {
        object: object!("tables"),
        kernel: "tables",
        launch: Launch::linear(COUNT.div_ceil(64) as u32, 64),
        arguments: vec![Argument::input(Gtt, &values), Argument::output(Gtt, &expected), Argument::U32(COUNT as u32)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wide_reference_survives_the_extremes() {
        // 0 mixes to 0, so it is divided by 1 and nothing is added.
        assert_eq!(wide_result(0), (0, 1.0));
        for value in [i64::MIN, i64::MAX, -1, 1] {
            assert!(wide_result(value).1.is_finite());
        }
    }

    #[test]
    fn many_steps_of_a_walk_are_as_many_single_ones() {
        for steps in [0, 1, 2, 63, 64, 1000] {
            let mut value = 7u32;
            for _ in 0..steps {
                value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            }
            assert_eq!(walk_result(7, steps), value, "{steps}");
        }
    }

    #[test]
    fn table_entries_come_from_all_three_tables() {
        assert_eq!([0, 1, 2, 21, 22, 23].map(table_entry), [2, 0, 1, 19, 49, 128]);
    }
}
