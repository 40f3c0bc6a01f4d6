//! The debugfs text of the virtual gpu, read as that of a real one.

use kfd::debugfs::{self, HqdPlace, MqdKind};
use kfd_abi::ioctl::Argument;
use kfd_abi::memory::{AllocFlags, AllocMemoryArgs, MapMemoryArgs};
use kfd_abi::mqd;
use kfd_abi::process::AcquireVmArgs;
use kfd_abi::queue::PipePriority;
use kfd_abi::queue::{CreateQueueArgs, QueueType};
use vgpu_driver::profile::Profile;
use vgpu_driver::sysfs::Node;
use vgpu_driver::{Call, Connected, Driver, FdKind, ProcessKey};

const PROGRAM: ProcessKey = ProcessKey::new(100, 1);
const BASE: u64 = 0x7000_0000_0000;

fn call<T: Argument>(driver: &mut Driver, mut call: Call) -> T {
    assert_eq!(driver.ioctl(PROGRAM, T::COMMAND.nr.into(), &mut call), Ok(0));
    call.decode()
}

/// Memory of the program that the gpu sees.
fn memory(driver: &mut Driver, gpu_id: u32, va_addr: u64, size: u64) {
    let flags = AllocFlags::GTT | AllocFlags::WRITABLE;
    let alloc = AllocMemoryArgs { va_addr, size, mmap_offset: 0, gpu_id, flags, handle: 0 };
    let handle = call::<AllocMemoryArgs>(driver, Call::new(&alloc)).handle;
    let map = MapMemoryArgs { handle, device_ids_array_ptr: 1, n_devices: 1, n_success: 0 };
    let mut mapping = Call::new(&map);
    mapping.buffers = vec![gpu_id.to_le_bytes().to_vec()];
    call::<MapMemoryArgs>(driver, mapping);
}

fn text(driver: &Driver, name: &str) -> String {
    match driver.sysfs(&format!("{}/{name}", kfd_abi::sysfs::DEBUG_DIR)) {
        Some(Node::File(text)) => text,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn queues_of_the_virtual_gpu_are_found_where_they_are() {
    let profile = Profile::load("mi308x").unwrap();
    let gpu = profile.gpu_list()[0];
    let size = profile.save_area().unwrap();
    let mut driver = Driver::new(profile);
    driver.open(PROGRAM).unwrap();
    let mut acquire = Call::new(&AcquireVmArgs { drm_fd: 5, gpu_id: gpu.gpu_id });
    acquire.fd = Some(FdKind::Render { minor: gpu.render_minor, file: 7 });
    call::<AcquireVmArgs>(&mut driver, acquire);
    memory(&mut driver, gpu.gpu_id, BASE, 0x10000);
    memory(&mut driver, gpu.gpu_id, BASE + 0x10_0000, 4096);
    memory(&mut driver, gpu.gpu_id, BASE + 0x1000_0000, size.total);
    let args = CreateQueueArgs {
        ring_base_address: BASE,
        ring_size: 0x10000,
        write_pointer_address: BASE + 0x10_0038,
        read_pointer_address: BASE + 0x10_0080,
        gpu_id: gpu.gpu_id,
        queue_type: QueueType::COMPUTE_AQL,
        queue_percentage: 100,
        queue_priority: 11,
        ctx_save_restore_address: BASE + 0x1000_0000,
        ctx_save_restore_size: size.cwsr,
        ctl_stack_size: size.ctl_stack,
        ..CreateQueueArgs::default()
    };
    for queue_type in [QueueType::SDMA, QueueType::COMPUTE_AQL] {
        call::<CreateQueueArgs>(&mut driver, Call::new(&CreateQueueArgs { queue_type, ..args }));
    }
    for mapped in driver.runlist(0).groups.concat() {
        for queue in mapped.queues {
            driver.mapped(mapped.process, queue.id, queue.place, Connected::default());
        }
    }

    let processes = debugfs::parse_queues(&text(&driver, "mqds"));
    let [process] = &processes[..] else { panic!("{processes:?}") };
    assert_eq!(process.pid, 100);
    let [compute, copies] = &process.queues[..] else { panic!("{process:?}") };
    assert_eq!((compute.kind, compute.gpu_id, compute.descriptors.len()), (MqdKind::Compute, gpu.gpu_id, 4));
    assert_eq!(
        (compute.ring(), compute.pipe_priority(), compute.is_active()),
        (Some(BASE), Some(PipePriority::HIGH), Some(true))
    );
    assert_eq!(compute.rptr_address(), Some(BASE + 0x10_0080));
    assert_eq!(compute.wptr_address(), Some(BASE + 0x10_0038));
    assert_eq!(compute.save_area(1), Some((BASE + 0x1000_0000 + u64::from(size.cwsr), size.cwsr)));
    assert_eq!((copies.kind, copies.descriptors.len()), (MqdKind::Sdma, 1));
    assert_eq!((copies.ring(), copies.rptr_address()), (Some(BASE), Some(BASE + 0x10_0080)));

    let nodes = debugfs::parse_slots(&text(&driver, "hqds"));
    let [node] = &nodes[..] else { panic!("{} nodes", nodes.len()) };
    assert_eq!((node.gpu_id, node.slots.len()), (gpu.gpu_id, 4 * (1 + 24) + 8 * 8));
    let held = node.slots.iter().filter(|slot| slot.is_active() == Some(true));
    let held: Vec<HqdPlace> =
        held.filter(|slot| slot.register(mqd::VMID) == Some(0x303)).map(|slot| slot.place).collect();
    assert_eq!(held, [0, 1, 2, 3].map(|xcc| HqdPlace::Compute { xcc, pipe: 0, queue: 2 }));
}
