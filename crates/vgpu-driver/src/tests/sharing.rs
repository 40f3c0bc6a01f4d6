//! Buffers that processes share.

use std::collections::BTreeMap;

use kfd_abi::drm::{GemCloseArgs, GemMmapArgs};
use kfd_abi::memory::{ExportDmabufArgs, ImportDmabufArgs};
use proptest::prelude::*;

use super::gem::{close, import_gem, run_drm};
use super::*;

const VA: u64 = 0x7000_0000_0000;

/// Exports a buffer. Answers the token and the driver's number of the buffer.
pub(super) fn export(machine: &mut Machine, process: ProcessKey, handle: u64) -> (u64, u64) {
    let export = machine.run(process, ExportDmabufArgs { handle, ..ExportDmabufArgs::ZERO });
    let [ShareEffect::ExportDmabuf { token, buffer, .. }] = export.call.effects.share[..] else {
        panic!("{export:?}");
    };
    (token, buffer)
}

fn import(machine: &mut Machine, process: ProcessKey, token: u64, va_addr: u64) -> Answer<ImportDmabufArgs> {
    let gpu_id = machine.gpu_id(0);
    let mut call = Call::new(&ImportDmabufArgs { va_addr, gpu_id, ..ImportDmabufArgs::ZERO });
    call.fd = Some(FdKind::Dmabuf { token });
    machine.call(process, call)
}

#[test]
fn another_process_sees_a_buffer_at_an_offset_of_its_own() {
    let mut machine = Machine::new("mi300x");
    let gpu_id = machine.gpu_id(0);
    let own = machine.alloc(BOB, VA, PAGE, AllocFlags::GTT | RW).ok().mmap_offset;
    let handle = machine.alloc(ALICE, VA, 2 * PAGE, AllocFlags::VRAM | RW).ok().handle;
    let (token, buffer) = export(&mut machine, ALICE, handle);
    let first = import(&mut machine, BOB, token, 2 * VA);
    let (backing, size) = (Backing::Vram { offset: own + PAGE }, 2 * PAGE);
    assert_eq!(first.call.effects.share, [ShareEffect::PassBuffer { buffer }]);
    let from = layout::BUFFERS_START;
    assert_eq!(first.call.effects.process, [ProcessEffect::ImportMemory { backing, from, size }]);
    // It is there already.
    let second = import(&mut machine, BOB, token, 3 * VA);
    assert!(second.call.effects.is_empty());
    let (first, second) = (first.ok().handle, second.ok().handle);
    let map = machine.map(BOB, first, &[gpu_id]).call.effects.process;
    assert_eq!(
        map,
        [ProcessEffect::MapMemory { gpu: 0, handle: first, va: 2 * VA, size, backing, flags: AllocFlags::VRAM | RW }]
    );
    machine.unmap(BOB, first, &[gpu_id]).ok();
    assert!(machine.free(BOB, first).call.effects.is_empty());
    let gone = machine.free(BOB, second).call.effects.process;
    assert_eq!(gone, [ProcessEffect::ForgetMemory { backing, size }]);
    // The offset is used again, by the next import too.
    assert_eq!(machine.alloc(BOB, VA, PAGE, AllocFlags::GTT | RW).ok().mmap_offset, own + PAGE);
    assert!(matches!(
        import(&mut machine, BOB, token, VA).call.effects.process[..],
        [ProcessEffect::ImportMemory { backing: Backing::Vram { offset }, .. }] if offset == own + 2 * PAGE
    ));
}

#[test]
fn a_buffer_outlives_the_process_that_allocated_it() {
    let mut machine = Machine::new("mi300x");
    let handle = machine.alloc(ALICE, VA, PAGE, AllocFlags::VRAM | RW).ok().handle;
    let (token, buffer) = export(&mut machine, ALICE, handle);
    let import = import(&mut machine, BOB, token, VA).ok().handle;
    let effects = machine.driver.close(ALICE);
    assert!(effects.share.is_empty());
    assert!(machine.driver.dmabuf_closed(token).is_empty());
    assert_eq!(machine.driver.gpus[0].vram_used, PAGE);
    // A later process with its number gets nothing of it.
    machine.driver.open(ALICE).unwrap();
    let effects = machine.free(BOB, import).call.effects;
    assert_eq!(effects.share, [ShareEffect::DiscardBuffer { buffer }]);
    assert_eq!(machine.driver.gpus[0].vram_used, 0);
    machine.acquire(ALICE, 0).ok();
    assert_eq!(machine.alloc(ALICE, VA, PAGE, AllocFlags::VRAM | RW).ok().mmap_offset, layout::BUFFERS_START);
}

#[test]
fn the_place_of_a_buffer_is_free_when_the_last_holder_is_gone() {
    let mut machine = Machine::new("mi300x");
    let alloc = |machine: &mut Machine| machine.alloc(ALICE, VA, PAGE, AllocFlags::VRAM | RW).ok();
    let first = alloc(&mut machine);
    let (token, buffer) = export(&mut machine, ALICE, first.handle);
    let import = import(&mut machine, BOB, token, VA).ok().handle;
    let backing = Backing::Vram { offset: first.mmap_offset };
    let free = machine.free(ALICE, first.handle).call.effects;
    assert_eq!(free.process, [ProcessEffect::ForgetMemory { backing, size: PAGE }]);
    machine.driver.dmabuf_closed(token);
    assert_ne!(alloc(&mut machine).mmap_offset, first.mmap_offset);
    assert_eq!(machine.driver.close(BOB).share, [ShareEffect::DiscardBuffer { buffer }]);
    assert!(machine.free(BOB, import).errno().is_some());
    assert_eq!(alloc(&mut machine).mmap_offset, first.mmap_offset);
}

/// A step of programs that share buffers and die.
#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc { process: usize, vram: bool, pages: u64 },
    Free { process: usize, pick: usize },
    Export { process: usize, pick: usize },
    CloseDmabuf { pick: usize },
    Import { process: usize, pick: usize },
    ImportGem { process: usize, pick: usize },
    CloseGem { process: usize, pick: usize },
    Close { process: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let process = || 0..2_usize;
    let pick = || 0..8_usize;
    let step = prop_oneof![
        4 => (process(), any::<bool>(), 1..64_u64)
            .prop_map(|(process, vram, pages)| Step::Alloc { process, vram, pages }),
        2 => (process(), pick()).prop_map(|(process, pick)| Step::Free { process, pick }),
        4 => (process(), pick()).prop_map(|(process, pick)| Step::Export { process, pick }),
        2 => pick().prop_map(|pick| Step::CloseDmabuf { pick }),
        3 => (process(), pick()).prop_map(|(process, pick)| Step::Import { process, pick }),
        3 => (process(), pick()).prop_map(|(process, pick)| Step::ImportGem { process, pick }),
        2 => (process(), pick()).prop_map(|(process, pick)| Step::CloseGem { process, pick }),
        1 => process().prop_map(|process| Step::Close { process }),
    ];
    prop::collection::vec(step, 0..150)
}

/// What the programs know: buffers are numbered in the order of their allocation.
#[derive(Debug, Default)]
struct Books {
    /// Whether it is video memory, and its bytes.
    buffers: Vec<(bool, u64)>,
    handles: [BTreeMap<u64, usize>; 2],
    gems: [BTreeMap<u32, usize>; 2],
    /// Tokens of open DMA buffers.
    dmabufs: BTreeMap<u64, usize>,
    /// Exported buffers by the driver's number that were not given back yet.
    exported: BTreeMap<u64, usize>,
}

impl Books {
    fn holds(&self, buffer: usize) -> bool {
        let handles = self.handles.iter().flat_map(BTreeMap::values);
        handles.chain(self.gems.iter().flat_map(BTreeMap::values)).chain(self.dmabufs.values()).any(|of| *of == buffer)
    }

    fn bytes(&self, vram: bool) -> u64 {
        let held = self.buffers.iter().enumerate().filter(|(id, (is_vram, _))| *is_vram == vram && self.holds(*id));
        held.map(|(_, (_, size))| size).sum()
    }

    /// What is discarded has no holder, and was not discarded before.
    fn discard(&mut self, effects: &[ShareEffect]) {
        for effect in effects {
            if let ShareEffect::DiscardBuffer { buffer } = effect {
                let buffer = self.exported.remove(buffer).expect("was exported and is discarded once");
                assert!(!self.holds(buffer));
            }
        }
    }
}

fn nth<K: Copy + Ord, V: Copy>(map: &BTreeMap<K, V>, pick: usize) -> Option<(K, V)> {
    map.iter().nth(pick % map.len().max(1)).map(|(key, value)| (*key, *value))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_books_are_exact_whatever_processes_share(steps in steps()) {
        let mut machine = Machine::new("mi300x");
        let keys = [ALICE, BOB];
        let mut books = Books::default();
        for step in steps {
            match step {
                Step::Alloc { process, vram, pages } => {
                    let kind = if vram { AllocFlags::VRAM } else { AllocFlags::GTT };
                    let handle = machine.alloc(keys[process], VA, pages * PAGE, kind | RW).ok().handle;
                    books.buffers.push((vram, pages * PAGE));
                    books.handles[process].insert(handle, books.buffers.len() - 1);
                }
                Step::Free { process, pick } => {
                    let Some((handle, _)) = nth(&books.handles[process], pick) else { continue };
                    let effects = machine.free(keys[process], handle).call.effects;
                    books.handles[process].remove(&handle);
                    books.discard(&effects.share);
                }
                Step::Export { process, pick } => {
                    let Some((handle, buffer)) = nth(&books.handles[process], pick) else { continue };
                    let (token, number) = export(&mut machine, keys[process], handle);
                    prop_assert!(books.dmabufs.insert(token, buffer).is_none());
                    books.exported.insert(number, buffer);
                }
                Step::CloseDmabuf { pick } => {
                    let Some((token, _)) = nth(&books.dmabufs, pick) else { continue };
                    let effects = machine.driver.dmabuf_closed(token);
                    books.dmabufs.remove(&token);
                    books.discard(&effects);
                }
                Step::Import { process, pick } => {
                    let Some((token, buffer)) = nth(&books.dmabufs, pick) else { continue };
                    let handle = import(&mut machine, keys[process], token, VA).ok().handle;
                    prop_assert!(books.handles[process].insert(handle, buffer).is_none());
                }
                Step::ImportGem { process, pick } => {
                    let Some((token, buffer)) = nth(&books.dmabufs, pick) else { continue };
                    let handle = import_gem(&mut machine, keys[process], token).ok().handle;
                    // One opening has one handle of a buffer.
                    let known = books.gems[process].iter().find(|(_, of)| **of == buffer).map(|(handle, _)| *handle);
                    prop_assert!(known.is_none_or(|known| known == handle));
                    books.gems[process].insert(handle, buffer);
                    let args = GemMmapArgs { handle_or_offset: handle.into() };
                    let offset = run_drm(&mut machine, keys[process], args).ok().handle_or_offset;
                    prop_assert!((layout::BUFFERS_START..layout::BUFFERS_END).contains(&offset));
                }
                Step::CloseGem { process, pick } => {
                    let Some((handle, _)) = nth(&books.gems[process], pick) else { continue };
                    let effects = close(&mut machine, keys[process], GemCloseArgs { handle, pad: 0 }).call.effects;
                    books.gems[process].remove(&handle);
                    books.discard(&effects.share);
                }
                Step::Close { process } => {
                    let effects = machine.driver.close(keys[process]);
                    (books.handles[process], books.gems[process]) = Default::default();
                    books.discard(&effects.share);
                    machine.driver.open(keys[process]).unwrap();
                    machine.acquire(keys[process], 0).ok();
                }
            }
            let used = (machine.driver.gpus[0].vram_used, machine.driver.system_used);
            prop_assert_eq!(used, (books.bytes(true), books.bytes(false)));
            prop_assert_eq!(books.exported.values().filter(|buffer| !books.holds(**buffer)).count(), 0);
            for key in keys {
                let held = machine.driver.process(key).unwrap().held.values();
                let mut ranges: Vec<_> =
                    held.map(|held| (held.backing.render_offset().unwrap(), held.size)).collect();
                ranges.sort_unstable();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{:x?}", ranges);
            }
        }
    }
}
