use super::*;

const PROPERTIES: &str = "simd_count 320\nmax_waves_per_simd 8\nsimd_per_cu 4\ngfx_target_version 90402\n\
                          location_id 4864\ndomain 2\ndrm_render_minor 128\nnum_cp_queues 24\nfw_version 156\n\
                          capability 671343232\nunique_id 16045690984503098046\nnum_xcc 4\n";

struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        machine.write("topology/generation_id", "2\n");
        machine.node(0, 0, "cpu_cores_count 96\nsimd_count 0\n");
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn node(&self, node: u32, gpu_id: u32, properties: &str) {
        self.write(&format!("topology/nodes/{node}/gpu_id"), &format!("{gpu_id}\n"));
        self.write(&format!("topology/nodes/{node}/properties"), properties);
    }

    fn gpus(&self) -> Result<Vec<Gpu>> {
        let gpus = gpus_below(&self.0.path().join("topology"), &self.0.path().join("pci"))?;
        Ok(gpus.into_iter().map(|(gpu, _)| gpu).collect())
    }
}

#[test]
fn a_gpu_is_described_and_a_processor_is_none() {
    let machine = Machine::new();
    machine.node(1, 51234, PROPERTIES);
    machine.write("pci/0002:13:00.0/product_name", "AMD Instinct MI308X\n");
    let [gpu] = &machine.gpus().unwrap()[..] else { panic!("one gpu") };
    assert_eq!((gpu.id, gpu.node, gpu.address.as_str()), (GpuId(51234), 1, "0002:13:00.0"));
    assert_eq!((gpu.name.as_str(), gpu.unique_id), ("AMD Instinct MI308X", 16045690984503098046));
    assert_eq!((gpu.cus, gpu.waves_per_cu, gpu.xccs, gpu.hardware_queues), (80, 32, 4, 24));
    assert_eq!((gpu.firmware, gpu.render_minor), (156, 128));
    assert!(gpu.can_debug() && gpu.firmware_can_debug());
}

#[test]
fn a_gpu_without_a_product_name_is_called_by_its_instruction_set() {
    let machine = Machine::new();
    machine.node(1, 1, PROPERTIES);
    machine.node(2, 2, &PROPERTIES.replace("90402", "90010").replace("4864", "5120"));
    let names: Vec<String> = machine.gpus().unwrap().into_iter().map(|gpu| gpu.name).collect();
    assert_eq!(names, ["gfx942", "gfx90a"]);
}

#[test]
fn partitions_are_numbered_whichever_way_the_driver_tells_them_apart() {
    for shift in [0, 28] {
        let machine = Machine::new();
        machine.write("pci/0002:13:00.0/product_name", "");
        for partition in 0..3 {
            let location = format!("location_id {}", 4864_u32 | partition << shift);
            machine.node(10 - partition, partition + 1, &PROPERTIES.replace("location_id 4864", &location));
        }
        machine.node(11, 9, &PROPERTIES.replace("4864", "5120"));
        let addresses: Vec<String> = machine.gpus().unwrap().into_iter().map(|gpu| gpu.address).collect();
        assert_eq!(addresses, ["0002:13:00.0/0", "0002:13:00.0/1", "0002:13:00.0/2", "0002:14:00.0"]);
    }
}

#[test]
fn a_function_that_exists_is_part_of_the_address() {
    let machine = Machine::new();
    machine.write("pci/0002:13:02.1/product_name", "");
    machine.node(1, 1, &PROPERTIES.replace("4864", &(0x1300 | 2 << 3 | 1).to_string()));
    assert_eq!(machine.gpus().unwrap()[0].address, "0002:13:02.1");
}

#[test]
fn what_is_missing_or_no_number_is_named() {
    let machine = Machine::new();
    machine.node(1, 1, &PROPERTIES.replace("simd_per_cu 4\n", ""));
    let said = machine.gpus().unwrap_err().to_string();
    assert!(said.contains("nodes/1/properties") && said.contains("simd_per_cu"), "{said}");
    machine.node(1, 1, &PROPERTIES.replace("num_xcc 4", "num_xcc four"));
    let said = machine.gpus().unwrap_err().to_string();
    assert!(said.contains("nodes/1/properties") && said.contains("num_xcc four"), "{said}");
    machine.node(1, 1, &PROPERTIES.replace("simd_per_cu 4", "simd_per_cu 0"));
    assert_eq!(machine.gpus().unwrap()[0].cus, 0);
    machine.write("topology/nodes/1/gpu_id", "?");
    assert!(machine.gpus().unwrap_err().to_string().contains("nodes/1/gpu_id"));
}

#[test]
fn without_a_driver_there_is_a_hint() {
    let said = gpus_below(Path::new("/nonexistent"), Path::new("/nonexistent")).unwrap_err().to_string();
    assert!(said.contains("/nonexistent/generation_id") && said.contains("is the amdgpu driver loaded?"), "{said}");
}
