//! Random calls: the books stay right, and nothing panics.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Numbers of the calls that a render node answers.
const DRM_CALLS: [u32; 12] = [0, 5, 9, 0x2D, 0x2E, 0x40, 0x41, 0x45, 0x46, 0x47, 0x48, 0x50];

/// A step of a program that allocates, maps, unmaps, frees and dies.
#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc { process: usize, kind: AllocFlags, va: u64, pages: u64 },
    Free { process: usize, pick: usize },
    Map { process: usize, pick: usize, gpu: usize },
    Unmap { process: usize, pick: usize, gpu: usize },
    Close { process: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let process = 0..2_usize;
    let pick = 0..16_usize;
    let gpu = 0..2_usize;
    let kind = prop_oneof![
        4 => Just(AllocFlags::VRAM),
        2 => Just(AllocFlags::GTT),
        1 => Just(AllocFlags::USERPTR),
    ];
    let step = prop_oneof![
        6 => (process.clone(), kind, 1..24_u64, 1..2048_u64)
            .prop_map(|(process, kind, va, pages)| Step::Alloc { process, kind, va: va << 20, pages }),
        3 => (process.clone(), pick.clone()).prop_map(|(process, pick)| Step::Free { process, pick }),
        5 => (process.clone(), pick.clone(), gpu.clone())
            .prop_map(|(process, pick, gpu)| Step::Map { process, pick, gpu }),
        4 => (process.clone(), pick, gpu).prop_map(|(process, pick, gpu)| Step::Unmap { process, pick, gpu }),
        1 => process.prop_map(|process| Step::Close { process }),
    ];
    prop::collection::vec(step, 0..200)
}

/// What the program knows about its buffers.
#[derive(Debug, Default)]
struct Books {
    /// Kind, offset, bytes and number of mappings by handle.
    buffers: BTreeMap<u64, (AllocFlags, u64, u64, u32)>,
}

impl Books {
    fn pick(&self, pick: usize) -> Option<u64> {
        let len = self.buffers.len().max(1);
        self.buffers.keys().nth(pick % len).copied()
    }

    fn bytes(&self, vram: bool) -> u64 {
        let of_kind = |kind: &AllocFlags| (*kind == AllocFlags::VRAM) == vram;
        self.buffers.values().filter(|(kind, ..)| of_kind(kind)).map(|(_, _, size, _)| size).sum()
    }
}

fn small_machine() -> Machine {
    let mut profile = Profile::load("mi300x-cpx").unwrap();
    (profile.vram_mib, profile.gtt_mib) = (64, 64);
    Machine::with(profile)
}

fn check(machine: &Machine, books: &[Books; 2]) {
    let sum = |vram| books.iter().map(|books| books.bytes(vram)).sum::<u64>();
    assert_eq!(machine.driver.gpus[0].vram_used, sum(true));
    assert_eq!(machine.driver.system_used, sum(false));
    for books in books {
        let in_file = books.buffers.values().filter(|(kind, ..)| *kind != AllocFlags::USERPTR);
        let mut ranges: Vec<(u64, u64)> = in_file.map(|(_, offset, size, _)| (*offset, *size)).collect();
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{ranges:x?}");
        assert!(ranges.iter().all(|(offset, _)| offset % PAGE == 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_books_are_exact_after_any_history(steps in steps()) {
        let mut machine = small_machine();
        let keys = [ALICE, BOB];
        let ids = [machine.gpu_id(0), machine.gpu_id(1)];
        let mut books = [Books::default(), Books::default()];
        for step in steps {
            match step {
                Step::Alloc { process, kind, va, pages } => {
                    let answer = machine.alloc(keys[process], va, pages * PAGE, kind | RW);
                    let used = books.iter().map(|books| books.bytes(kind == AllocFlags::VRAM)).sum::<u64>();
                    let fits = used + pages * PAGE <= 64 << 20;
                    prop_assert_eq!(answer.errno(), if fits { None } else { Some(Errno::ENOMEM) });
                    if fits {
                        let entry = (kind, answer.args.mmap_offset, pages * PAGE, 0);
                        prop_assert!(books[process].buffers.insert(answer.args.handle, entry).is_none());
                    }
                }
                Step::Free { process, pick } => {
                    let Some(handle) = books[process].pick(pick) else { continue };
                    let mapped = books[process].buffers[&handle].3 > 0;
                    let answer = machine.free(keys[process], handle);
                    prop_assert_eq!(answer.errno(), mapped.then_some(Errno::EBUSY));
                    if !mapped {
                        books[process].buffers.remove(&handle);
                    }
                }
                Step::Map { process, pick, gpu } => {
                    let Some(handle) = books[process].pick(pick) else { continue };
                    let answer = machine.map(keys[process], handle, &[ids[gpu]]);
                    prop_assert!(matches!(answer.errno(), None | Some(Errno::EINVAL)));
                    if let Some(entry) = books[process].buffers.get_mut(&handle) {
                        entry.3 += answer.call.effects.process.len() as u32;
                    }
                }
                Step::Unmap { process, pick, gpu } => {
                    let Some(handle) = books[process].pick(pick) else { continue };
                    let answer = machine.unmap(keys[process], handle, &[ids[gpu]]);
                    if let Some(entry) = books[process].buffers.get_mut(&handle) {
                        entry.3 -= answer.call.effects.process.len() as u32;
                    }
                }
                Step::Close { process } => {
                    let effects = machine.driver.close(keys[process]).process;
                    let freed = effects.iter().filter(|effect| matches!(effect, ProcessEffect::FreeMemory { .. })).count();
                    prop_assert_eq!(freed, books[process].buffers.len());
                    books[process] = Books::default();
                    machine.driver.open(keys[process]).unwrap();
                    for gpu in 0..2 {
                        machine.acquire(keys[process], gpu).ok();
                    }
                }
            }
            check(&machine, &books);
        }
        for key in keys {
            machine.driver.close(key);
        }
        prop_assert_eq!((machine.driver.gpus[0].vram_used, machine.driver.system_used), (0, 0));
    }

    /// Bytes of which some happen to name the gpu, so that more than the first check is reached.
    #[test]
    fn no_bytes_make_a_call_panic(
        calls in prop::collection::vec(
            (0..0x28_u32, prop::collection::vec(any::<u8>(), 0..120), any::<[bool; 4]>(), 0..3_usize),
            1..24,
        ),
    ) {
        let mut machine = small_machine();
        let gpu_id = machine.gpu_id(0).to_le_bytes();
        for (nr, mut args, [named, readable, plain, drm], fd) in calls {
            if named {
                // Where the commands have their gpu, or an address and a size.
                for offset in [4, 8, 16, 20, 24, 32, 36] {
                    if let Some(room) = args.get_mut(offset..offset + 4) {
                        room.copy_from_slice(&gpu_id);
                    }
                }
            }
            if plain {
                // Small numbers are valid more often than large ones.
                args.chunks_mut(4).for_each(|word| word.iter_mut().skip(1).for_each(|byte| *byte = 0));
            }
            // Every call of a render node has its turn.
            let nr = if drm { DRM_CALLS[nr as usize % DRM_CALLS.len()] } else { nr };
            let specs = if drm { drm_buffers(nr, &args) } else { buffers(nr, &args) };
            let fd = [
                None,
                Some(FdKind::Dmabuf { token: 1 }),
                Some(FdKind::Render { minor: 128, file: 7 }),
            ][fd];
            let named = Some(FdKind::Dmabuf { token: 1 });
            let mut call = Call { args: args.clone(), fd, named, ..Call::default() };
            if readable {
                let lens: Vec<usize> = specs.unwrap_or_default().iter().map(|spec| spec.len).collect();
                call.buffers = lens.iter().map(|len| vec![0; *len]).collect();
                let result = if drm {
                    machine.driver.drm_ioctl(ALICE, nr, &mut call)
                } else {
                    machine.driver.ioctl(ALICE, nr, &mut call)
                };
                // The caller's memory is never overrun.
                prop_assert!(result.is_err() || call.buffers.iter().zip(&lens).all(|(buffer, len)| buffer.len() <= *len));
            } else {
                let _ = machine.driver.ioctl(ALICE, nr, &mut call);
            }
            prop_assert_eq!(call.args.len(), args.len());
        }
        machine.driver.close(ALICE);
        for token in 1..machine.driver.next_dmabuf {
            machine.driver.dmabuf_closed(token);
        }
        prop_assert_eq!((machine.driver.gpus[0].vram_used, machine.driver.system_used), (0, 0));
    }
}
