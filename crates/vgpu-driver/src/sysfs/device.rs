//! The device nodes, the PCI devices behind them, and the kernel module.

use super::{DRM_MAJOR, DeviceKind, Tree};
use crate::profile::{Gpu, IpVersion, Profile};

/// Module parameters that programs and people look at, with the driver's defaults.
const MODULE_PARAMETERS: &[(&str, &str)] = &[
    ("cwsr_enable", "1"),
    ("debug_largebar", "0"),
    ("halt_if_hws_hang", "0"),
    ("hws_max_conc_proc", "-1"),
    ("ignore_crat", "0"),
    ("max_num_of_queues_per_device", "4096"),
    ("mes", "0"),
    ("no_queue_eviction_on_vm_fault", "0"),
    ("no_system_mem_limit", "N"),
    ("noretry", "-1"),
    ("queue_preemption_timeout_ms", "9000"),
    ("sched_policy", "0"),
    ("send_sigterm", "0"),
    ("vm_size", "-1"),
];

/// Hardware ids of the blocks in `ip_discovery`: compute, copy engines, bus interface.
const GC_HWID: u32 = 11;
const SDMA0_HWID: u32 = 42;
const NBIF_HWID: u32 = 108;

const PCI_DRIVER_DIR: &str = "/sys/bus/pci/drivers/amdgpu";

pub(super) fn build(tree: &mut Tree, profile: &Profile) {
    for root in ["/dev/kfd", "/dev/dri", "/sys/class/drm", "/sys/module/amdgpu", PCI_DRIVER_DIR] {
        tree.own(root);
    }
    tree.device("/dev/kfd", DeviceKind::Kfd);
    module(tree);
    tree.dir(PCI_DRIVER_DIR);
    for (index, gpu) in profile.gpu_list().iter().enumerate() {
        let device = parent_device(tree, profile, gpu, index);
        drm_device(tree, &device, gpu, index);
    }
}

fn module(tree: &mut Tree) {
    let dir = "/sys/module/amdgpu";
    tree.line(&format!("{dir}/initstate"), "live");
    tree.line(&format!("{dir}/refcnt"), 1);
    // Programs read it to show it, and to see that there is a driver.
    tree.line(&format!("{dir}/version"), "6.12.12");
    for (name, value) in MODULE_PARAMETERS {
        tree.line(&format!("{dir}/parameters/{name}"), value);
    }
}

/// The device that a gpu's DRM nodes belong to. Partitions share one PCI device, which belongs to the first of them;
/// the driver makes a platform device for each of the others, and libdrm tells gpus apart by it. Answers its directory.
fn parent_device(tree: &mut Tree, profile: &Profile, gpu: &Gpu, index: usize) -> String {
    let address = profile.pci_address(gpu);
    let pci = format!("/sys/devices/pci{:04x}:{:02x}/{address}", profile.pci_domain, gpu.pci_bus);
    if tree.lookup(&pci).is_none() {
        pci_device(tree, profile, gpu, &pci, &address);
        return pci;
    }
    let name = format!("amdgpu_xcp_{}", index.saturating_sub(1));
    let dir = format!("/sys/devices/platform/{name}");
    tree.own(&dir);
    tree.text(&format!("{dir}/uevent"), format!("MODALIAS=platform:{name}\n"));
    tree.link(&format!("{dir}/subsystem"), "/sys/bus/platform");
    let link = format!("/sys/bus/platform/devices/{name}");
    tree.link(&link, &dir);
    tree.own(&link);
    dir
}

fn pci_device(tree: &mut Tree, profile: &Profile, gpu: &Gpu, dir: &str, address: &str) {
    tree.own(dir);
    for (name, value) in [
        ("vendor", 0x1002),
        ("device", profile.device_id),
        ("subsystem_vendor", 0x1002),
        ("subsystem_device", profile.device_id),
    ] {
        tree.line(&format!("{dir}/{name}"), format_args!("0x{value:04x}"));
    }
    // Processing accelerator.
    tree.line(&format!("{dir}/class"), "0x120000");
    tree.line(&format!("{dir}/revision"), format_args!("0x{:02x}", profile.revision_id));
    tree.line(&format!("{dir}/numa_node"), -1);
    tree.line(&format!("{dir}/local_cpulist"), 0);
    tree.line(&format!("{dir}/local_cpus"), 1);
    tree.line(&format!("{dir}/unique_id"), format_args!("{:016x}", gpu.unique_id));
    tree.line(&format!("{dir}/product_name"), &profile.marketing_name);
    tree.line(&format!("{dir}/mem_info_vram_total"), profile.vram_bytes());
    tree.line(&format!("{dir}/mem_info_vis_vram_total"), profile.vram_bytes());
    tree.line(&format!("{dir}/mem_info_gtt_total"), profile.gtt_bytes());
    tree.line(&format!("{dir}/power_dpm_force_performance_level"), "auto");
    tree.line(&format!("{dir}/current_compute_partition"), if profile.partitions { "CPX" } else { "SPX" });
    let id = format!("1002:{:04X}", profile.device_id);
    let uevent = format!("DRIVER=amdgpu\nPCI_CLASS=120000\nPCI_ID={id}\nPCI_SUBSYS_ID={id}\nPCI_SLOT_NAME={address}\n");
    tree.text(&format!("{dir}/uevent"), uevent);
    tree.link(&format!("{dir}/subsystem"), "/sys/bus/pci");
    tree.link(&format!("{dir}/driver"), PCI_DRIVER_DIR);

    ip_block(tree, dir, GC_HWID, profile.xcc, profile.gfx.gc());
    ip_block(tree, dir, SDMA0_HWID, profile.sdma_engines, profile.gfx.sdma());
    ip_block(tree, dir, NBIF_HWID, 1, profile.gfx.nbif());

    for link in [format!("/sys/bus/pci/devices/{address}"), format!("{PCI_DRIVER_DIR}/{address}")] {
        tree.link(&link, dir);
        tree.own(&link);
    }
}

fn ip_block(tree: &mut Tree, device: &str, hwid: u32, instances: u32, version: IpVersion) {
    for instance in 0..instances {
        let dir = format!("{device}/ip_discovery/die/0/{hwid}/{instance}");
        for (name, value) in [
            ("hw_id", hwid),
            ("num_instance", instance),
            ("major", version.major),
            ("minor", version.minor),
            ("revision", version.revision),
        ] {
            tree.line(&format!("{dir}/{name}"), value);
        }
    }
}

/// A gpu's render node, which can be opened, and its primary node, of which there is only the name: compute programs do
/// not open it, but libdrm names a gpu by it.
fn drm_device(tree: &mut Tree, device: &str, gpu: &Gpu, index: usize) {
    tree.line(&format!("{device}/drm/card{index}/dev"), format_args!("{DRM_MAJOR}:{index}"));
    let minor = gpu.render_minor;
    let name = format!("renderD{minor}");
    tree.device(&format!("/dev/dri/{name}"), DeviceKind::Render(minor));
    let dir = format!("{device}/drm/{name}");
    tree.line(&format!("{dir}/dev"), format_args!("{DRM_MAJOR}:{minor}"));
    tree.text(
        &format!("{dir}/uevent"),
        format!("MAJOR={DRM_MAJOR}\nMINOR={minor}\nDEVNAME=dri/{name}\nDEVTYPE=drm_minor\n"),
    );
    tree.link(&format!("{dir}/device"), device);
    tree.link(&format!("{dir}/subsystem"), "/sys/class/drm");
    tree.link(&format!("/sys/class/drm/{name}"), &dir);
    let number = format!("/sys/dev/char/{DRM_MAJOR}:{minor}");
    tree.link(&number, &dir);
    tree.own(&number);
}
