use std::collections::{BTreeSet, HashMap};

use kfd_abi::sysfs::{self, node};
use kfd_abi::topology::Capability;

use super::*;

fn profiles() -> Vec<Profile> {
    let mut profiles: Vec<Profile> =
        Profile::builtin_names().into_iter().map(|name| Profile::load(name).unwrap()).collect();
    let mut eight = Profile::load("mi300x-cpx").unwrap();
    eight.gpus = 8;
    profiles.push(eight);
    profiles.push(Profile::load("mi300x").unwrap().with_cus(304).unwrap());
    profiles
}

fn file(tree: &Tree, path: &str) -> String {
    match tree.lookup(path) {
        Some(Node::File(text)) => text,
        other => panic!("{path}: {other:?}"),
    }
}

fn properties(tree: &Tree, path: &str) -> HashMap<String, u64> {
    let text = file(tree, path);
    assert!(text.ends_with('\n'));
    text.lines()
        .map(|line| {
            let (name, value) = line.split_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

fn count(tree: &Tree, path: &str) -> u64 {
    match tree.lookup(path) {
        Some(Node::Dir(entries)) => entries.len() as u64,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn listings_and_lookups_agree() {
    for profile in profiles() {
        let tree = Tree::new(&profile);
        let mut reached = BTreeSet::from(["/".to_owned()]);
        let mut queue = vec!["/".to_owned()];
        while let Some(dir) = queue.pop() {
            let Some(Node::Dir(entries)) = tree.lookup(&dir) else { panic!("{dir} is no directory") };
            for entry in entries {
                let path = format!("{}/{}", dir.trim_end_matches('/'), entry.name);
                let found = tree.lookup(&path).unwrap_or_else(|| panic!("{path} is listed but not there"));
                let kind = match found {
                    Node::Dir(_) => EntryKind::Dir,
                    Node::File(_) => EntryKind::File,
                    Node::Device(_) => EntryKind::Device,
                    Node::Link(_) => EntryKind::Link,
                };
                assert_eq!(kind, entry.kind, "{path}");
                match kind {
                    EntryKind::Dir => queue.push(path.clone()),
                    EntryKind::Link => {
                        let target = tree.resolve(&path).unwrap_or_else(|| panic!("{path} points nowhere"));
                        assert!(tree.lookup(&target).is_some());
                    }
                    EntryKind::File | EntryKind::Device => {}
                }
                reached.insert(path);
            }
        }
        let all: BTreeSet<String> = tree.items.keys().cloned().collect();
        assert_eq!(reached, all);
    }
}

#[test]
fn gpu_properties_agree_with_the_profile_and_with_each_other() {
    for profile in profiles() {
        let tree = Tree::new(&profile);
        for gpu in profile.gpu_list() {
            let dir = format!("{}/nodes/{}", sysfs::TOPOLOGY_DIR, gpu.node);
            let values = properties(&tree, &format!("{dir}/properties"));
            let get = |name: &str| values[name];
            assert_eq!(file(&tree, &format!("{dir}/gpu_id")), format!("{}\n", gpu.gpu_id));
            assert_eq!(get(node::SIMD_COUNT), u64::from(profile.cus) * 4);
            assert_eq!(get(node::NUM_XCC), u64::from(profile.xcc));
            assert!(get(node::CU_PER_SIMD_ARRAY) * get(node::ARRAY_COUNT) * 4 >= get(node::SIMD_COUNT));
            assert_eq!(get(node::CPU_CORES_COUNT), 0);
            assert_eq!(get(node::DRM_RENDER_MINOR), u64::from(gpu.render_minor));
            for (name, list) in [
                (node::MEM_BANKS_COUNT, "mem_banks"),
                (node::CACHES_COUNT, "caches"),
                (node::IO_LINKS_COUNT, "io_links"),
                (node::P2P_LINKS_COUNT, "p2p_links"),
            ] {
                assert_eq!(get(name), count(&tree, &format!("{dir}/{list}")), "{name}");
            }
            let geometry = kfd_abi::cwsr::Geometry {
                gfx: kfd_abi::topology::GfxVersion(get(node::GFX_TARGET_VERSION) as u32),
                simd_count: get(node::SIMD_COUNT) as u32,
                simd_per_cu: get(node::SIMD_PER_CU) as u32,
                array_count: get(node::ARRAY_COUNT) as u32,
                simd_arrays_per_engine: get(node::SIMD_ARRAYS_PER_ENGINE) as u32,
                num_xcc: get(node::NUM_XCC) as u32,
            };
            let size = kfd_abi::cwsr::SaveAreaSize::of(&geometry).unwrap();
            assert_eq!(get(node::CWSR_SIZE), u64::from(size.cwsr));
            assert_eq!(get(node::CTL_STACK_SIZE), u64::from(size.ctl_stack));
            let capability = Capability(get(node::CAPABILITY) as u32);
            assert_eq!(capability.doorbell_type(), 2);
            assert_eq!(capability.0 & 0x2003_8000, 0x2003_8000);
            assert!(capability.has(Capability::SRAM_EDCSUPPORTED | Capability::SVMAPI_SUPPORTED));
            let bank = properties(&tree, &format!("{dir}/mem_banks/0/properties"));
            assert_eq!((bank["heap_type"], bank["size_in_bytes"]), (1, profile.vram_bytes()));
        }
    }
}

#[test]
fn properties_come_in_the_order_of_the_driver() {
    let tree = Tree::new(&Profile::load("mi300x").unwrap());
    let names = |path: &str| -> Vec<String> {
        file(&tree, path).lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    let expected: Vec<&str> =
        node::EVERY.iter().chain(node::GPU).copied().chain([node::MAX_ENGINE_CLK_CCOMPUTE]).collect();
    assert_eq!(names(&format!("{}/nodes/1/properties", sysfs::TOPOLOGY_DIR)), expected);
    assert_eq!(names(&format!("{}/nodes/1/caches/0/properties", sysfs::TOPOLOGY_DIR)), sysfs::CACHE_PROPERTIES);
    assert_eq!(names(&format!("{}/nodes/1/io_links/0/properties", sysfs::TOPOLOGY_DIR)), sysfs::IO_LINK_PROPERTIES);
    assert_eq!(names(&format!("{}/system_properties", sysfs::TOPOLOGY_DIR)), sysfs::SYSTEM_PROPERTIES);
}

#[test]
fn links_connect_every_pair_of_nodes_once_in_each_direction() {
    for profile in profiles() {
        let tree = Tree::new(&profile);
        let mut links = BTreeSet::new();
        for at in 0..=profile.gpus {
            let dir = format!("{}/nodes/{at}/io_links", sysfs::TOPOLOGY_DIR);
            for link in 0..count(&tree, &dir) {
                let values = properties(&tree, &format!("{dir}/{link}/properties"));
                assert_eq!(values["node_from"], u64::from(at));
                assert!(links.insert((values["node_from"], values["node_to"])));
            }
        }
        let nodes = u64::from(profile.gpus) + 1;
        assert_eq!(links.len() as u64, nodes * (nodes - 1));
    }
}

/// The caches of the first gpu: all values by name, and the map.
fn caches(profile: &Profile) -> Vec<(HashMap<String, u64>, Vec<u32>)> {
    let tree = Tree::new(profile);
    let dir = format!("{}/nodes/1/caches", sysfs::TOPOLOGY_DIR);
    let cache = |at: u64| {
        let text = file(&tree, &format!("{dir}/{at}/properties"));
        let (values, map) = text.split_once("sibling_map ").unwrap();
        let values = values.lines().map(|line| line.split_once(' ').unwrap());
        let values = values.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect();
        (values, map.trim_end().split(',').map(|bit| bit.parse().unwrap()).collect())
    };
    (0..count(&tree, &dir)).map(cache).collect()
}

#[test]
fn first_level_caches_cover_every_compute_unit_once() {
    for profile in profiles() {
        let caches = caches(&profile);
        for (kind, kinds) in [(9, 2), (10, 1)] {
            let of_kind = caches.iter().filter(|(values, _)| values["level"] == 1 && values["type"] == kind);
            let covered: u32 = of_kind.map(|(_, map)| map.iter().sum::<u32>()).sum();
            assert_eq!(covered, kinds * profile.cus, "{} {kind}", profile.name);
        }
        for (values, map) in caches.iter().filter(|(values, _)| values["level"] == 1) {
            // The map starts with the unit that the cache is named by, and has one word.
            assert!(map[0] == 1 && map.len() == 32);
            assert!(values["processor_id_low"] >= 0x8000_1000 && values["cache_lines_per_tag"] == 0);
        }
    }
}

#[test]
fn there_is_one_entry_for_each_higher_level() {
    for profile in profiles() {
        let caches = caches(&profile);
        let levels: Vec<u64> = caches.iter().map(|(values, _)| values["level"]).filter(|&level| level > 1).collect();
        assert_eq!(levels, if profile.l3_kib > 0 { vec![2, 3] } else { vec![2] });
        let (values, map) = &caches[caches.len() - levels.len()];
        assert_eq!((values["cache_line_size"], values["processor_id_low"]), (128, 0x8000_1000));
        assert_eq!(map.len() as u32, 32 * profile.engines_per_xcc() * profile.xcc);
    }
}

/// Numbers of a published listing of an MI300X with all 304 compute units. It is of an older driver, without save-area
/// sizes; what it shows beside them agrees with the rules of Linux 6.12.
#[test]
fn a_full_mi300x_has_the_published_numbers() {
    let mut profile = Profile::load("mi300x").unwrap().with_cus(304).unwrap();
    profile.gpus = 2;
    let tree = Tree::new(&profile);
    let dir = format!("{}/nodes", sysfs::TOPOLOGY_DIR);
    let values = properties(&tree, &format!("{dir}/2/properties"));
    for (name, value) in [
        (node::SIMD_COUNT, 1216),
        (node::MEM_BANKS_COUNT, 1),
        (node::SIMD_ID_BASE, 0x8000_1000 + 40),
        (node::MAX_WAVES_PER_SIMD, 8),
        (node::ARRAY_COUNT, 32),
        (node::CU_PER_SIMD_ARRAY, 10),
        (node::MAX_SLOTS_SCRATCH_CU, 32),
        (node::NUM_SDMA_XGMI_ENGINES, 14),
        (node::NUM_CP_QUEUES, 24),
        (node::CAPABILITY, 746_037_888),
        (node::DEBUG_PROP, 1511),
        // 304 vector caches, 160 of each kind that two compute units share, and one of each higher level.
        (node::CACHES_COUNT, 626),
    ] {
        assert_eq!(values[name], value, "{name}");
    }
    // The driver knows no caches of a processor, and of its memory only the size.
    let processor = properties(&tree, &format!("{dir}/0/properties"));
    assert_eq!((processor[node::CACHES_COUNT], processor[node::MEM_BANKS_COUNT]), (0, 1));
    let bank = properties(&tree, &format!("{dir}/0/mem_banks/0/properties"));
    assert_eq!((bank["heap_type"], bank["width"], bank["mem_clk_max"]), (0, 0, 0));
    for at in 0..=2 {
        assert_eq!(tree.lookup(&format!("{dir}/{at}/perf")), Some(Node::Dir(Vec::new())));
    }
}

#[test]
fn an_mi210_watches_other_addresses() {
    let tree = Tree::new(&Profile::load("mi210").unwrap());
    let values = properties(&tree, &format!("{}/nodes/1/properties", sysfs::TOPOLOGY_DIR));
    assert_eq!(values[node::DEBUG_PROP], 29 << 4 | 6);
    assert_eq!(Capability(values[node::CAPABILITY] as u32).watch_points(), 4);
}

#[test]
fn partitions_of_a_device_are_closer_than_devices() {
    let link = |mut profile: Profile| {
        profile.gpus = 2;
        let tree = Tree::new(&profile);
        let link = properties(&tree, &format!("{}/nodes/1/io_links/1/properties", sysfs::TOPOLOGY_DIR));
        (link["type"], link["weight"], link["max_bandwidth"])
    };
    assert_eq!(link(Profile::load("mi300x-cpx").unwrap()), (11, 13, 819_200));
    assert_eq!(link(Profile::load("mi300x").unwrap()), (11, 15, 64_000));
}

#[test]
fn what_tinygrad_and_the_runtime_read_is_there() {
    let tree = Tree::new(&Profile::load("mi300x").unwrap());
    assert_eq!(tree.lookup("/dev/kfd"), Some(Node::Device(DeviceKind::Kfd)));
    assert_eq!(tree.lookup("/dev/dri/renderD128"), Some(Node::Device(DeviceKind::Render(128))));
    for (path, text) in [
        ("/sys/class/drm/renderD128/device/ip_discovery/die/0/11/0/major", "9\n"),
        ("/sys/class/drm/renderD128/device/ip_discovery/die/0/11/0/revision", "3\n"),
        ("/sys/class/drm/renderD128/device/ip_discovery/die/0/42/0/minor", "4\n"),
        ("/sys/class/drm/renderD128/device/ip_discovery/die/0/108/0/minor", "9\n"),
        ("/sys/dev/char/226:128/device/vendor", "0x1002\n"),
        ("/sys/dev/char/226:128/device/device", "0x74a1\n"),
        ("/sys/bus/pci/devices/0000:c1:00.0/local_cpus", "1\n"),
        ("/sys/module/amdgpu/initstate", "live\n"),
        ("/sys/module/amdgpu/parameters/sched_policy", "0\n"),
        ("/sys/class/kfd/kfd/topology/generation_id", "2\n"),
        ("/sys/devices/virtual/kfd/kfd/topology/generation_id", "2\n"),
        ("/sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n"),
    ] {
        assert_eq!(file(&tree, path), text, "{path}");
    }
    assert!(file(&tree, "/sys/dev/char/226:128/device/uevent").contains("PCI_SLOT_NAME=0000:c1:00.0\n"));
    assert_eq!(tree.lookup("/sys/class/kfd/kfd"), Some(Node::Link("../../devices/virtual/kfd/kfd".into())));
    let subsystem = tree.lookup("/sys/dev/char/226:128/device/subsystem");
    assert!(matches!(&subsystem, Some(Node::Link(text)) if text.ends_with("/bus/pci")), "{subsystem:?}");
    assert_eq!(tree.lookup("/sys/class/kfd/kfd/topology/nodes/2"), None);
    assert_eq!(tree.lookup("/proc/modules"), None);
    assert_eq!(tree.lookup(""), None);
}

#[test]
fn libdrm_can_tell_every_gpu_from_the_others() {
    for name in ["mi300x", "mi300x-cpx"] {
        let mut profile = Profile::load(name).unwrap();
        profile.gpus = 3;
        let tree = Tree::new(&profile);
        let mut primaries = Vec::new();
        for gpu in profile.gpu_list() {
            let dir = format!("/sys/dev/char/226:{}/device/drm", gpu.render_minor);
            let Some(Node::Dir(entries)) = tree.lookup(&dir) else { panic!("{name}: no {dir}") };
            let names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
            assert!(names.contains(&format!("renderD{}", gpu.render_minor)), "{name}: {names:?}");
            primaries.extend(names.into_iter().filter(|name| name.starts_with("card")));
        }
        assert_eq!(primaries, ["card0", "card1", "card2"], "{name}");
    }
}

#[test]
fn directories_of_the_machine_are_told_from_ours() {
    let tree = Tree::new(&Profile::load("mi300x").unwrap());
    for shared in ["/", "/dev", "/sys", "/sys/class", "/sys/devices", "/sys/dev/char", "/sys/bus/pci/devices"] {
        assert!(matches!(tree.lookup(shared), Some(Node::Dir(_))), "{shared}");
        assert!(!tree.owns(shared), "{shared}");
    }
    for ours in ["/dev/kfd", "/dev/dri", "/dev/dri/renderD128", "/sys/class/kfd/kfd", "/sys/dev/char/226:128/device"] {
        assert!(tree.owns(ours), "{ours}");
    }
    assert!(!tree.owns("/dev/kfd2"));
}
