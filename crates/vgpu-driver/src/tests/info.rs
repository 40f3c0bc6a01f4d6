use kfd_abi::Union;
use kfd_abi::criu::CriuArgs;
use kfd_abi::drm::{ClientArgs, DeviceInfo, InfoArgs, InfoQuery, ReadRegisters, VersionArgs};
use kfd_abi::memory::{DeviceApertures, GetProcessAperturesArgs, GetProcessAperturesNewArgs};
use kfd_abi::process::{
    CachePolicy, GetClockCountersArgs, GetTileConfigArgs, GetVersionArgs, SetMemoryPolicyArgs, SetScratchBackingVaArgs,
    SetTrapHandlerArgs, SetXnackModeArgs,
};
use kfd_abi::queue::{CreateQueueArgs, QueueType};
use kfd_abi::smi::SmiEventsArgs;

use super::*;

const CAROL: ProcessKey = ProcessKey::new(300, 3);

/// A machine on which Carol has opened the driver and nothing else.
fn machine(profile: &str) -> Machine {
    let mut machine = Machine::new(profile);
    machine.driver.open(CAROL).unwrap();
    machine
}

#[test]
fn the_version_is_1_17() {
    let answer = machine("mi300x").run(ALICE, GetVersionArgs { major_version: 9, minor_version: 9 }).ok();
    assert_eq!((answer.major_version, answer.minor_version), (1, 17));
}

#[test]
fn apertures_are_those_of_a_gfx9_gpu() {
    let mut machine = machine("mi300x-cpx");
    let old = machine.run(ALICE, GetProcessAperturesArgs::ZERO).ok();
    assert_eq!(old.num_of_nodes, 2);
    let expected = |gpu_id| DeviceApertures {
        lds_base: 0x1_0000_0000_0000,
        lds_limit: 0x1_0000_FFFF_FFFF,
        scratch_base: 0x2_0000_0000_0000,
        scratch_limit: 0x2_0000_FFFF_FFFF,
        gpuvm_base: 0x1_0000,
        gpuvm_limit: 0x7FFF_FFFF_FFFF,
        gpu_id,
        pad: 0,
    };
    assert_eq!(old.process_apertures[1], expected(machine.gpu_id(1)));
    let ask = |machine: &mut Machine, num_of_nodes| {
        let mut call = Call::new(&GetProcessAperturesNewArgs { num_of_nodes, ..GetProcessAperturesNewArgs::ZERO });
        call.buffers = vec![Vec::new()];
        machine.call::<GetProcessAperturesNewArgs>(ALICE, call)
    };
    assert_eq!(ask(&mut machine, 0).ok().num_of_nodes, 2);
    // There may be room for every node, with the processor's, and for no more.
    assert_eq!(ask(&mut machine, 4).errno(), Some(Errno::EINVAL));
    for (room, filled) in [(1, 1), (2, 2), (3, 2)] {
        let answer = ask(&mut machine, room);
        assert_eq!(answer.args.num_of_nodes, filled);
        assert_eq!(answer.call.buffers[0].len(), filled as usize * DeviceApertures::SIZE);
        assert_eq!(DeviceApertures::decode(&answer.call.buffers[0]), Some(expected(machine.gpu_id(0))));
    }
}

#[test]
fn an_address_space_is_acquired_once() {
    let mut machine = machine("mi300x-cpx");
    let gpu_id = machine.gpu_id(0);
    let acquire = |machine: &mut Machine, gpu_id, fd| {
        let mut call = Call::new(&AcquireVmArgs { drm_fd: 3, gpu_id });
        call.fd = fd;
        machine.call::<AcquireVmArgs>(CAROL, call).errno()
    };
    let render = |file| Some(FdKind::Render { minor: 128, file });
    assert_eq!(acquire(&mut machine, gpu_id, None), Some(Errno::EINVAL));
    assert_eq!(acquire(&mut machine, gpu_id, Some(FdKind::Other)), Some(Errno::EINVAL));
    assert_eq!(acquire(&mut machine, gpu_id, Some(FdKind::Render { minor: 129, file: 1 })), Some(Errno::EINVAL));
    assert_eq!(acquire(&mut machine, 1, render(1)), Some(Errno::EINVAL));
    assert_eq!(acquire(&mut machine, gpu_id, render(1)), None);
    assert_eq!(acquire(&mut machine, gpu_id, render(1)), None);
    assert_eq!(acquire(&mut machine, gpu_id, render(2)), Some(Errno::EBUSY));
}

#[test]
fn clocks_agree() {
    let mut machine = machine("mi300x");
    let ask = |machine: &mut Machine, gpu_id| {
        let mut call = Call::new(&GetClockCountersArgs { gpu_id, ..GetClockCountersArgs::ZERO });
        call.clocks = Clocks { monotonic_raw_ns: 5_000, boottime_ns: 7_000 };
        machine.call::<GetClockCountersArgs>(ALICE, call).ok()
    };
    let gpu_id = machine.gpu_id(0);
    let clocks = ask(&mut machine, gpu_id);
    assert_eq!((clocks.gpu_clock_counter, clocks.cpu_clock_counter), (500, 5_000));
    assert_eq!((clocks.system_clock_counter, clocks.system_clock_freq), (7_000, 1_000_000_000));
    assert_eq!(ask(&mut machine, 0).gpu_clock_counter, 0);
}

#[test]
fn settings_need_a_gpu_with_an_address_space() {
    let mut machine = machine("mi300x");
    let gpu_id = machine.gpu_id(0);
    let policy = SetMemoryPolicyArgs { gpu_id, ..SetMemoryPolicyArgs::ZERO };
    assert_eq!(machine.run(ALICE, policy).errno(), None);
    assert_eq!(machine.run(CAROL, policy).errno(), Some(Errno::ESRCH));
    let wrong = SetMemoryPolicyArgs { default_policy: CachePolicy(2), ..policy };
    assert_eq!(machine.run(ALICE, wrong).errno(), Some(Errno::EINVAL));
    let wrong = SetMemoryPolicyArgs { alternate_policy: CachePolicy(2), ..policy };
    assert_eq!(machine.run(ALICE, wrong).errno(), Some(Errno::EINVAL));

    let scratch = SetScratchBackingVaArgs { va_addr: 0x4000, gpu_id, pad: 0 };
    assert_eq!(
        machine.run(ALICE, scratch).call.effects.process,
        [ProcessEffect::SetScratchBacking { gpu: 0, va: 0x4000 }]
    );
    assert_eq!(machine.run(CAROL, scratch).errno(), Some(Errno::ENODEV));
    assert_eq!(machine.run(ALICE, SetScratchBackingVaArgs { gpu_id: 1, ..scratch }).errno(), Some(Errno::EINVAL));

    let trap = SetTrapHandlerArgs { tba_addr: 0x1000, tma_addr: 0x2000, gpu_id, pad: 0 };
    let effect = ProcessEffect::SetTrapHandler { gpu: 0, tba: 0x1000, tma: 0x2000 };
    assert_eq!(machine.run(ALICE, trap).call.effects.process, [effect]);
    assert_eq!(machine.run(CAROL, trap).errno(), Some(Errno::ESRCH));
    assert_eq!(machine.run(ALICE, SetTrapHandlerArgs { gpu_id: 1, ..trap }).errno(), Some(Errno::EINVAL));
}

#[test]
fn tile_modes_fill_no_more_than_there_are() {
    let mut machine = machine("mi300x");
    let gpu_id = machine.gpu_id(0);
    let args =
        GetTileConfigArgs { num_tile_configs: 100, num_macro_tile_configs: 2, gpu_id, ..GetTileConfigArgs::ZERO };
    let mut call = Call::new(&args);
    call.buffers = vec![vec![1; 128], vec![1; 8]];
    let answer = machine.call::<GetTileConfigArgs>(CAROL, call);
    assert_eq!(answer.call.buffers, [vec![0; 128], vec![0; 8]]);
    let answer = answer.ok();
    assert_eq!((answer.num_tile_configs, answer.num_macro_tile_configs), (32, 2));
    assert_eq!(answer.gb_addr_config, 0x2A11_4042);
    assert_eq!(machine.run(ALICE, GetTileConfigArgs { gpu_id: 1, ..args }).errno(), Some(Errno::EINVAL));
}

/// Gives Alice a copy queue, which is the least a queue can be.
fn add_queue(machine: &mut Machine) {
    machine.mapped(ALICE, 0x10_0000, PAGE, AllocFlags::GTT | RW);
    let gpu_id = machine.gpu_id(0);
    let queue = CreateQueueArgs {
        ring_base_address: 0x10_0000,
        ring_size: 4096,
        write_pointer_address: 0x10_0000,
        read_pointer_address: 0x10_0000,
        gpu_id,
        queue_type: QueueType::SDMA,
        ..CreateQueueArgs::ZERO
    };
    machine.run(ALICE, queue).ok();
}

#[test]
fn the_fault_mode_can_be_asked_and_set_while_there_are_no_queues() {
    let mut machine = machine("mi300x");
    let mode = |machine: &mut Machine, xnack_enabled| machine.run(ALICE, SetXnackModeArgs { xnack_enabled });
    assert_eq!(mode(&mut machine, -1).ok().xnack_enabled, 0);
    assert_eq!(mode(&mut machine, 1).call.effects.process, [ProcessEffect::XnackMode { enabled: true }]);
    assert!(mode(&mut machine, 1).call.effects.is_empty());
    assert_eq!(mode(&mut machine, -1).ok().xnack_enabled, 1);
    add_queue(&mut machine);
    assert_eq!(mode(&mut machine, 0).errno(), Some(Errno::EBUSY));
    assert_eq!(mode(&mut machine, -1).ok().xnack_enabled, 1);
}

#[test]
fn checkpoints_and_event_streams_are_refused_in_the_right_order() {
    let mut machine = machine("mi300x");
    let gpu_id = machine.gpu_id(0);
    assert_eq!(machine.run(ALICE, CriuArgs::ZERO).errno(), Some(Errno::EACCES));
    let call = Call { checkpoint_restore: true, ..Call::new(&CriuArgs::ZERO) };
    assert_eq!(machine.call::<CriuArgs>(ALICE, call).errno(), Some(Errno::EINVAL));
    let smi = |gpuid| SmiEventsArgs { gpuid, anon_fd: 0 };
    assert_eq!(machine.run(ALICE, smi(1)).errno(), Some(Errno::EINVAL));
    assert_eq!(machine.run(ALICE, smi(gpu_id)).errno(), Some(Errno::ENOMEM));
}

fn drm(machine: &mut Machine, nr: u32, mut call: Call) -> (Result<i64, Errno>, Call) {
    call.fd = Some(FdKind::Render { minor: 128, file: 7 });
    let result = machine.driver.drm_ioctl(ALICE, nr, &mut call);
    (result, call)
}

fn info(machine: &mut Machine, query: InfoQuery, return_size: u32, detail: Union<2>) -> Result<Vec<u8>, Errno> {
    let mut call = Call::new(&InfoArgs { return_pointer: 1, return_size, query, detail });
    call.buffers = vec![Vec::new()];
    let (result, mut call) = drm(machine, 0x45, call);
    result.map(|_| call.buffers.remove(0))
}

#[test]
fn libdrm_finds_its_driver() {
    let mut machine = machine("mi300x");
    let lengths = drm(&mut machine, 0, Call::new(&VersionArgs::ZERO));
    assert_eq!(lengths.0, Ok(0));
    let lengths: VersionArgs = lengths.1.decode();
    assert_eq!((lengths.version_major, lengths.name_len, lengths.desc_len), (3, 6, 7));
    let mut call = Call::new(&VersionArgs { name_len: 6, date_len: 3, desc_len: 100, ..VersionArgs::ZERO });
    call.buffers = vec![Vec::new(); 3];
    let (_, call) = drm(&mut machine, 0, call);
    assert_eq!(call.buffers, [&b"amdgpu"[..], b"201", b"AMD GPU"]);
    let (_, call) = drm(&mut machine, 5, Call::new(&ClientArgs::ZERO));
    let client: ClientArgs = call.decode();
    assert_eq!((client.auth, client.pid), (1, 100));
    let (other, _) = drm(&mut machine, 5, Call::new(&ClientArgs { idx: 1, ..ClientArgs::ZERO }));
    assert_eq!(other, Err(Errno::EINVAL));
    for nr in [0x42, 0x0A, 0x44, 0xFF, 0x145] {
        assert_eq!(drm(&mut machine, nr, Call::default()).0, Err(Errno::EINVAL), "{nr:#x}");
    }
    assert_eq!(machine.driver.drm_ioctl(ALICE, 0, &mut Call::default()), Err(Errno::EBADF));
}

#[test]
fn device_queries_agree_with_the_profile() {
    let mut machine = machine("mi300x");
    machine.alloc(ALICE, 0x10_0000, PAGE, AllocFlags::VRAM | RW).ok();
    let none = Union::ZERO;
    assert_eq!(info(&mut machine, InfoQuery::ACCEL_WORKING, 4, none), Ok(vec![1, 0, 0, 0]));
    let device = info(&mut machine, InfoQuery::DEV_INFO, 1000, none).unwrap();
    assert_eq!(device.len(), DeviceInfo::FULL_SIZE);
    let device = DeviceInfo::decode(&device).unwrap();
    assert_eq!((device.device_id, device.family, device.cu_active_number), (0x74A1, 141, 16));
    let shown: u32 = device.cu_bitmap.iter().flatten().map(|mask| mask.count_ones()).sum();
    assert_eq!(shown * 8, 16);
    // An answer is cut where the room ends.
    assert_eq!(info(&mut machine, InfoQuery::DEV_INFO, 4, none).unwrap(), 0x74A1_u32.to_le_bytes());
    let memory = info(&mut machine, InfoQuery::MEMORY, 96, none).unwrap();
    let memory = <[[u64; 4]; 3]>::decode(&memory).unwrap();
    assert_eq!((memory[0][0], memory[0][2], memory[2][0]), (8 << 30, PAGE, 4 << 30));
    let sizes = info(&mut machine, InfoQuery::VRAM_GTT, 24, none).unwrap();
    assert_eq!(<[u64; 3]>::decode(&sizes), Some([8 << 30, 8 << 30, 4 << 30]));
    let registers = ReadRegisters { dword_offset: 0x263E, count: 1, instance: u32::MAX, flags: 0 };
    let config = info(&mut machine, InfoQuery::READ_MMR_REG, 4, Union::of(&registers)).unwrap();
    assert_eq!(config, 0x2A11_4042_u32.to_le_bytes());
    for (broken, errno) in [
        (ReadRegisters { dword_offset: 0, ..registers }, Errno::EFAULT),
        (ReadRegisters { count: 129, ..registers }, Errno::EINVAL),
    ] {
        assert_eq!(info(&mut machine, InfoQuery::READ_MMR_REG, 4, Union::of(&broken)), Err(errno));
    }
    let firmware = info(&mut machine, InfoQuery::FW_VERSION, 8, Union::of(&[8_u32, 0])).unwrap();
    assert_eq!(<[u32; 2]>::decode(&firmware), Some([165, 0]));
    assert_eq!(info(&mut machine, InfoQuery::FW_VERSION, 8, Union::of(&[99_u32, 0])), Err(Errno::EINVAL));
    assert_eq!(info(&mut machine, InfoQuery(0x7F), 8, none), Err(Errno::EINVAL));
    assert_eq!(info(&mut machine, InfoQuery::ACCEL_WORKING, 0, none), Err(Errno::EINVAL));
}
