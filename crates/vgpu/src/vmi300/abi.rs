//! The interface of `/dev/vmi300`, as `kernel/vmi300/engine_ioctl.h` has it.

use rustix::ioctl::{Opcode, opcode};

/// Bytes of the window onto GPU memory.
pub(super) const WINDOW_SIZE: u64 = 1 << 38;
/// Offset of the [`Page`].
pub(super) const PAGE_OFFSET: u64 = WINDOW_SIZE;
/// Slots of compute queues.
pub(super) const SLOTS: usize = 32;

/// Words that kernel and engine share.
#[repr(C)]
pub(super) struct Page {
    /// Orders ever given.
    pub(super) orders: std::sync::atomic::AtomicU32,
    reserved: u32,
    /// Waves of the queue in each slot.
    pub(super) waves: [std::sync::atomic::AtomicU32; SLOTS],
}

/// An address space that has no engine, and the gpu that it belongs to.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NextArgs {
    pub(super) id: u64,
    pub(super) gpu: u32,
    pub(super) xccs: u32,
    /// Compute units of all XCCs.
    pub(super) cus: u32,
    pub(super) read_index: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AttachArgs {
    pub(super) id: u64,
}

/// GPU addresses and where they are in the window.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range {
    pub(super) va: u64,
    pub(super) size: u64,
    pub(super) window: u64,
    pub(super) flags: u32,
    reserved: u32,
}

impl Range {
    pub(super) const WRITABLE: u32 = 1;
    pub(super) const EXECUTABLE: u32 = 2;
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RangesArgs {
    pub(super) ranges: u64,
    pub(super) room: u32,
    pub(super) count: u32,
}

/// Kinds of orders.
pub(super) mod order {
    pub(crate) const NONE: u32 = 0;
    pub(crate) const MAP: u32 = 1;
    pub(crate) const UNMAP: u32 = 2;
    pub(crate) const DROP: u32 = 3;
    pub(crate) const SPACE: u32 = 4;
    pub(crate) const FORGET: u32 = 5;
    pub(crate) const RESET: u32 = 6;
    pub(crate) const END: u32 = 7;
}

/// Formats of rings.
pub(super) mod format {
    pub(crate) const AQL: u32 = 0;
    pub(crate) const PM4: u32 = 1;
}

/// A queue that is mapped.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueArgs {
    pub(super) serial: u64,
    pub(super) ring: u64,
    pub(super) ring_bytes: u64,
    pub(super) read_index: u64,
    pub(super) write_index: u64,
    pub(super) save_area: u64,
    pub(super) save_bytes: u32,
    pub(super) control_stack: u32,
    pub(super) format: u32,
    pub(super) priority: u32,
    pub(super) slot: u32,
    pub(super) doorbell: u32,
    pub(super) trap_memory: u64,
    /// Compute units of each XCC and shader engine.
    pub(super) cu_mask: [[u32; 4]; 8],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OrderArgs {
    pub(super) timeout_ns: u64,
    pub(super) number: u64,
    pub(super) kind: u32,
    pub(super) reserved: u32,
    pub(super) grace_ns: u64,
    pub(super) queue: QueueArgs,
}

/// A queue that left the device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnmappedArgs {
    pub(super) serial: u64,
    pub(super) read_index: u64,
    pub(super) write_index: u64,
    pub(super) waves: u32,
    pub(super) reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnswerArgs {
    pub(super) number: u64,
    pub(super) queues: u64,
    pub(super) count: u32,
    pub(super) reserved: u32,
}

/// Kinds of interrupts.
pub(super) mod interrupt {
    pub(crate) const EVENT: u32 = 0;
    pub(crate) const MESSAGE: u32 = 1;
    pub(crate) const TRAP: u32 = 2;
    pub(crate) const FAULT: u32 = 3;
    pub(crate) const BAD_PACKET: u32 = 4;
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InterruptArgs {
    pub(super) serial: u64,
    pub(super) address: u64,
    pub(super) kind: u32,
    pub(super) value: u32,
}

pub(super) const NEXT: Opcode = opcode::read::<NextArgs>(b'v', 0);
pub(super) const ATTACH: Opcode = opcode::write::<AttachArgs>(b'v', 1);
pub(super) const RANGES: Opcode = opcode::read_write::<RangesArgs>(b'v', 2);
pub(super) const ORDER: Opcode = opcode::read_write::<OrderArgs>(b'v', 3);
pub(super) const ANSWER: Opcode = opcode::write::<AnswerArgs>(b'v', 4);
pub(super) const INTERRUPT: Opcode = opcode::write::<InterruptArgs>(b'v', 5);

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::mem::offset_of;
    use std::process::Command;

    use super::*;

    /// Names in the header with our values.
    fn ours() -> Vec<(String, u64)> {
        let mut list: Vec<(String, u64)> = Vec::new();
        let mut add = |name: &str, value: u64| list.push((name.to_owned(), value));
        add("VMI300_WINDOW_SIZE", WINDOW_SIZE);
        add("VMI300_PAGE_OFFSET", PAGE_OFFSET);
        for (name, code) in [
            ("NEXT", NEXT),
            ("ATTACH", ATTACH),
            ("RANGES", RANGES),
            ("ORDER", ORDER),
            ("ANSWER", ANSWER),
            ("INTERRUPT", INTERRUPT),
        ] {
            add(&format!("VMI300_IOC_{name}"), u64::from(code));
        }
        for (name, value) in [
            ("VMI300_ORDER_NONE", order::NONE),
            ("VMI300_ORDER_MAP", order::MAP),
            ("VMI300_ORDER_UNMAP", order::UNMAP),
            ("VMI300_ORDER_DROP", order::DROP),
            ("VMI300_ORDER_SPACE", order::SPACE),
            ("VMI300_ORDER_FORGET", order::FORGET),
            ("VMI300_ORDER_RESET", order::RESET),
            ("VMI300_ORDER_END", order::END),
            ("VMI300_FORMAT_AQL", format::AQL),
            ("VMI300_FORMAT_PM4", format::PM4),
            ("VMI300_INTERRUPT_EVENT", interrupt::EVENT),
            ("VMI300_INTERRUPT_MESSAGE", interrupt::MESSAGE),
            ("VMI300_INTERRUPT_TRAP", interrupt::TRAP),
            ("VMI300_INTERRUPT_FAULT", interrupt::FAULT),
            ("VMI300_INTERRUPT_BAD_PACKET", interrupt::BAD_PACKET),
            ("VMI300_RANGE_WRITABLE", Range::WRITABLE),
            ("VMI300_RANGE_EXECUTABLE", Range::EXECUTABLE),
        ] {
            add(name, value.into());
        }
        for (field, offset) in [
            ("page, waves", offset_of!(Page, waves)),
            ("next, read_index", offset_of!(NextArgs, read_index)),
            ("range, flags", offset_of!(Range, flags)),
            ("ranges, count", offset_of!(RangesArgs, count)),
            ("order, number", offset_of!(OrderArgs, number)),
            ("order, kind", offset_of!(OrderArgs, kind)),
            ("order, grace_ns", offset_of!(OrderArgs, grace_ns)),
            ("order, queue", offset_of!(OrderArgs, queue)),
            ("queue, save_area", offset_of!(QueueArgs, save_area)),
            ("queue, control_stack", offset_of!(QueueArgs, control_stack)),
            ("queue, doorbell", offset_of!(QueueArgs, doorbell)),
            ("queue, trap_memory", offset_of!(QueueArgs, trap_memory)),
            ("queue, cu_mask", offset_of!(QueueArgs, cu_mask)),
            ("unmapped, waves", offset_of!(UnmappedArgs, waves)),
            ("answer, count", offset_of!(AnswerArgs, count)),
            ("interrupt, value", offset_of!(InterruptArgs, value)),
        ] {
            add(&format!("offsetof(struct vmi300_engine_{field})"), offset as u64);
        }
        add("sizeof(struct vmi300_engine_page)", size_of::<Page>() as u64);
        list
    }

    #[test]
    fn numbers_and_layouts_are_those_of_the_kernel_module() {
        let folder = tempfile::tempdir().unwrap();
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel/vmi300/engine_ioctl.h");
        let mut program =
            format!("#include \"{header}\"\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {{\n");
        for (name, _) in ours() {
            writeln!(program, "printf(\"%llu\\n\", (unsigned long long)({name}));").unwrap();
        }
        program += "return 0; }\n";
        let (source, binary) = (folder.path().join("print.c"), folder.path().join("print"));
        std::fs::write(&source, program).unwrap();
        assert!(Command::new("cc").arg(&source).arg("-o").arg(&binary).status().unwrap().success());
        let printed = String::from_utf8(Command::new(&binary).output().unwrap().stdout).unwrap();
        let theirs = printed.lines().map(|line| line.parse::<u64>().unwrap());
        let compared: Vec<_> =
            ours().into_iter().zip(theirs).map(|((name, ours), theirs)| (name, ours, theirs)).collect();
        assert_eq!(compared.len(), ours().len());
        for (name, ours, theirs) in compared {
            assert_eq!(ours, theirs, "{name}");
        }
    }
}
