//! Address spaces: mappings that overlap, accesses across them, faults, atomics.

use proptest::prelude::*;
use vgpu_isa::memory::{Access, Fault, Mapping, Port, Space};

const PAGE: u64 = 0x100;

fn mapping(start: u64, end: u64, host: *mut u8) -> Mapping {
    Mapping { start, end, host, writable: true, executable: false, guarded: false }
}

/// Adds a mapping of memory that the caller keeps.
fn insert(space: &mut Space, mapping: Mapping) {
    // SAFETY: every test keeps its buffers until its space is gone.
    unsafe { space.insert(mapping) };
}

/// Start and end of every mapping, and its distance from `host`.
fn layout(space: &Space, host: *mut u8) -> Vec<(u64, u64, usize)> {
    space.mappings().iter().map(|m| (m.start, m.end, m.host.addr() - host.addr())).collect()
}

#[test]
fn removing_splits_mappings_and_keeps_their_memory_in_place() {
    let mut memory = vec![0_u8; 0x1000];
    let host = memory.as_mut_ptr();
    let mut space = Space::new();
    insert(&mut space, mapping(0x1000, 0x2000, host));
    space.remove(0x1400, 0x1800);
    assert_eq!(layout(&space, host), [(0x1000, 0x1400, 0), (0x1800, 0x2000, 0x800)]);
    space.remove(0, 0x1100);
    space.remove(0x1F00, u64::MAX);
    assert_eq!(layout(&space, host), [(0x1100, 0x1400, 0x100), (0x1800, 0x1F00, 0x800)]);
    space.remove(0x1300, 0x1900);
    assert_eq!(layout(&space, host), [(0x1100, 0x1300, 0x100), (0x1900, 0x1F00, 0x900)]);
    space.remove(0x1300, 0x1300);
    space.remove(0, u64::MAX);
    assert!(space.mappings().is_empty());
}

#[test]
fn a_new_mapping_replaces_what_it_overlaps() {
    let (mut old, mut new) = (vec![1_u8; 0x1000], vec![2_u8; 0x200]);
    let mut space = Space::new();
    insert(&mut space, mapping(0x1000, 0x2000, old.as_mut_ptr()));
    insert(&mut space, mapping(0x1700, 0x1900, new.as_mut_ptr()));
    insert(&mut space, mapping(0x3000, 0x3000, new.as_mut_ptr()));
    assert_eq!(space.mappings().len(), 3);
    let mut bytes = [0; 0x400];
    Port::new(&space).read(0x1600, &mut bytes).expect("all there");
    let count = |value: u8| bytes.iter().filter(|&&b| b == value).count();
    assert_eq!((bytes[0xFF], bytes[0x100], bytes[0x2FF], bytes[0x300]), (1, 2, 2, 1));
    assert_eq!((count(1), count(2)), (0x200, 0x200));
}

proptest! {
    /// Against a table with one entry for each page.
    #[test]
    fn spaces_are_what_a_page_table_says(
        steps in prop::collection::vec((any::<bool>(), 0_u64..32, 1_u64..16), 1..60)
    ) {
        let mut memory = vec![0_u8; 64 * 48 * PAGE as usize];
        let host = memory.as_mut_ptr();
        let mut space = Space::new();
        let mut table = [None; 48];
        for (n, (add, first, pages)) in steps.into_iter().enumerate() {
            let (start, end) = (first * PAGE, (first + pages) * PAGE);
            // Every step has memory of its own.
            let own = n * 48 * PAGE as usize;
            if add {
                insert(&mut space, mapping(start, end, host.wrapping_add(own)));
            } else {
                space.remove(start, end);
            }
            for page in first..first + pages {
                table[page as usize] = add.then_some(own + ((page - first) * PAGE) as usize);
            }
        }
        let mut port = Port::new(&space);
        for (page, entry) in table.into_iter().enumerate() {
            for offset in [0, PAGE - 4] {
                let address = page as u64 * PAGE + offset;
                let want = entry.map(|own| host.addr() + own + offset as usize);
                prop_assert_eq!(port.direct(address, 4, Access::Read).map(<*mut u8>::addr), want);
                prop_assert_eq!(space.find(address).is_some(), want.is_some());
            }
        }
        for pair in space.mappings().windows(2) {
            prop_assert!(pair[0].end <= pair[1].start);
        }
    }
}

#[test]
fn accesses_cross_mappings_and_fault_at_the_first_missing_byte() {
    let (mut low, mut high) = (vec![0_u8; 0x10], vec![0_u8; 0x10]);
    let mut space = Space::new();
    insert(&mut space, mapping(0x100, 0x110, low.as_mut_ptr()));
    insert(&mut space, mapping(0x110, 0x120, high.as_mut_ptr()));
    let mut port = Port::new(&space);
    port.write_u64(0x10C, 0x1122_3344_5566_7788).expect("across");
    assert_eq!(port.read_u64(0x10C), Ok(0x1122_3344_5566_7788));
    assert_eq!(port.read_u32(0x110), Ok(0x1122_3344));
    assert_eq!(port.read_u32(0x10D), Ok(0x4455_6677), "misaligned, across");
    assert_eq!(port.direct(0x10E, 4, Access::Read), None, "no single piece of memory");
    let missing = |address, access| Fault { address, access, mapped: false };
    assert_eq!(port.read_u32(0x11E), Err(missing(0x120, Access::Read)));
    assert_eq!(port.write_u64(0x11C, u64::MAX), Err(missing(0x120, Access::Write)));
    assert_eq!(port.read_u32(0x11C), Ok(0xFFFF_FFFF), "what lies before a fault is written");
    assert_eq!(port.read_u32(0xFE), Err(missing(0xFE, Access::Read)));
    assert_eq!(port.read_u64(u64::MAX - 3), Err(missing(u64::MAX - 3, Access::Read)));
    assert_eq!(port.read(0, &mut []), Ok(()), "nothing is wanted");
}

#[test]
fn mappings_forbid_what_they_do_not_allow() {
    let mut memory = vec![0_u8; 0x100];
    let mut space = Space::new();
    insert(&mut space, Mapping { writable: false, ..mapping(0x100, 0x200, memory.as_mut_ptr()) });
    let mut port = Port::new(&space);
    let forbidden = |access| Err(Fault { address: 0x140, access, mapped: true });
    assert_eq!(port.read_u32(0x140), Ok(0));
    assert_eq!(port.write_u32(0x140, 1), forbidden(Access::Write).map(|_: u32| ()));
    assert_eq!(port.atomic_u32(0x140, |old| old + 1), forbidden(Access::Write));
    assert_eq!(port.direct(0x140, 4, Access::Execute), None);
    assert_eq!(port.fetch(0x140, &mut [0; 4], Access::Execute), forbidden(Access::Execute).map(|_: u32| ()));
    assert!(memory.iter().all(|&b| b == 0));
}

#[test]
fn atomics_want_whole_words() {
    let mut memory = vec![0_u64; 4];
    let mut space = Space::new();
    insert(&mut space, mapping(0x100, 0x11C, memory.as_mut_ptr().cast()));
    let mut port = Port::new(&space);
    let fault = |address, mapped| Fault { address, access: Access::Write, mapped };
    assert_eq!(port.atomic_u32(0x104, |old| old + 5), Ok(0));
    assert_eq!(port.atomic_u32(0x104, |old| old * 2), Ok(5));
    assert_eq!(port.atomic_u64(0x100, |old| old + 1), Ok(10 << 32));
    assert_eq!(port.read_u64(0x100), Ok(10 << 32 | 1));
    assert_eq!(port.atomic_u32(0x106, |old| old), Err(fault(0x106, true)));
    assert_eq!(port.atomic_u64(0x10C, |old| old), Err(fault(0x10C, true)));
    assert_eq!(port.atomic_u64(0x118, |old| old), Err(fault(0x118, true)), "half of it is there");
    assert_eq!(port.atomic_u32(0x11C, |old| old), Err(fault(0x11C, false)));
}

#[test]
fn atomics_of_several_agents_lose_nothing() {
    const TIMES: u32 = 10_000;
    let mut memory = vec![0_u64; 1];
    let mut space = Space::new();
    insert(&mut space, mapping(0x100, 0x108, memory.as_mut_ptr().cast()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut port = Port::new(&space);
                for _ in 0..TIMES {
                    port.atomic_u32(0x100, |old| old + 1).expect("mapped");
                    port.atomic_u32(0x104, |old| old ^ 1).expect("mapped");
                }
            });
        }
    });
    assert_eq!(Port::new(&space).read_u32(0x100), Ok(4 * TIMES));
    assert_eq!(Port::new(&space).read_u32(0x104), Ok(0));
}
