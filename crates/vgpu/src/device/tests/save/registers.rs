//! Any number of registers that a kernel's descriptor can ask for.

use proptest::prelude::*;

use super::super::kernels::ADD;
use super::super::walker::walk;
use super::{Case, Run};

const ADDING: Case = Case { code: ADD, lds: 0, scratch: 0, items: 64, group: 64, input: true };
const ROOM: u32 = 192 << 10;

/// What a register of a wave holds in the test.
fn number(register: usize, lane: usize) -> u32 {
    (register * 64 + lane) as u32 ^ 0x9E37_79B9
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_wave_of_any_descriptor_is_saved_and_restored(
        blocks in 0..64_u32,
        accum_offset in 0..64_u32,
        scalars in 1..8_u32,
        turns in 1..9_usize,
    ) {
        let mut run = Run::new(&ADDING, ROOM);
        run.machine.set_u32(run.kernel + 44, accum_offset);
        let modes = 0xF0 << 12 | 1 << 21 | 1 << 23;
        run.machine.set_u32(run.kernel + 48, blocks | scalars << 7 | modes);
        run.turns(turns);
        let all = (blocks as usize + 1) * 8;
        let ordinary = ((accum_offset as usize + 1) * 4).min(all).min(256);
        let accumulators = (all - ordinary).min(256);
        {
            let mut device = run.machine.device.lock().unwrap();
            prop_assert!(device.suspend(run.queue.id));
            let wave = &mut device.off_device(run.queue.id).unwrap()[0].waves[0].wave;
            // The kernel uses four of the ordinary ones.
            for register in 4..ordinary {
                wave.v[register] = std::array::from_fn(|lane| number(register, lane));
            }
            for register in 0..accumulators {
                wave.a[register] = std::array::from_fn(|lane| !number(register, lane));
            }
        }
        prop_assert_eq!(run.save(), 1);
        let found = walk(&mut run.machine.port(), run.area.address, run.area.control_stack);
        prop_assert_eq!((found[0].layout.arch_vgprs + found[0].layout.acc_vgprs) as usize, all);
        prop_assert!(run.code.contains(&found[0].pc(&mut run.machine.port())));
        run.restore();
        {
            let mut device = run.machine.device.lock().unwrap();
            device.suspend(run.queue.id);
            let wave = &device.off_device(run.queue.id).unwrap()[0].waves[0].wave;
            for register in 4..ordinary {
                prop_assert_eq!(wave.v[register], std::array::from_fn(|lane| number(register, lane)));
            }
            for register in 0..accumulators {
                prop_assert_eq!(wave.a[register], std::array::from_fn(|lane| !number(register, lane)));
            }
            device.resume(run.queue.id);
        }
        prop_assert_eq!(run.finish(64), (0..64).map(|n| n * 3 + 7).collect::<Vec<u32>>());
    }
}
