use super::*;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn process_with_queue(root: &Path, pid: &str) {
    let process = root.join(pid);
    write(&process.join("pasid"), "32769\n");
    write(&process.join("vram_51234"), "4096\n");
    write(&process.join("sdma_51234"), "0\n");
    write(&process.join("stats_51234/evicted_ms"), "12\n");
    write(&process.join("stats_51234/cu_occupancy"), "152\n");
    write(&process.join("queues/0/size"), "4096");
    write(&process.join("queues/0/type"), "0");
    write(&process.join("queues/0/gpuid"), "51234");
}

#[test]
fn processes_and_queues_are_read_from_the_drivers_files() {
    let root = tempfile::tempdir().unwrap();
    process_with_queue(root.path(), "300");
    process_with_queue(root.path(), "7");
    fs::create_dir_all(root.path().join("8/queues")).unwrap();
    let found = Processes::at(root.path()).list().unwrap();
    assert!(found.iter().map(|process| process.pid.0).eq([7, 8, 300]));
    let queue = SysfsQueue { id: QueueId(0), gpu: GpuId(51234), kind: SysfsQueueType::COMPUTE, ring_size: 4096 };
    assert_eq!(found[0].queues, [queue]);
    assert_eq!(found[0].usage, [Usage { gpu: GpuId(51234), vram: 4096, evicted_ms: Some(12) }]);
    assert!(found[1].queues.is_empty() && found[1].usage.is_empty());
    assert!(found.iter().all(|process| process.contexts.is_empty()));
}

#[test]
fn contexts_are_listed_with_their_own_queues() {
    let root = tempfile::tempdir().unwrap();
    process_with_queue(root.path(), "7");
    process_with_queue(&root.path().join("7"), "context_3");
    fs::create_dir_all(root.path().join("7/context_0/queues")).unwrap();
    let processes = Processes::at(root.path());
    let found = processes.find(Pid(7)).unwrap().unwrap();
    assert_eq!((found.queues.len(), &found.contexts[..]), (1, &[0, 3][..]));
    let queues = |context| processes.context_queues(Pid(7), context).unwrap();
    assert_eq!((queues(0), queues(3), queues(9)), (Vec::new(), found.queues, Vec::new()));
    assert!(processes.is_open_by(Pid(7)) && !processes.is_open_by(Pid(9)));
    assert_eq!(processes.contexts(Pid(9)).unwrap(), None);
}

#[test]
fn a_queue_that_vanishes_while_it_is_read_is_left_out() {
    let root = tempfile::tempdir().unwrap();
    process_with_queue(root.path(), "7");
    fs::remove_file(root.path().join("7/queues/0/gpuid")).unwrap();
    assert!(Processes::at(root.path()).list().unwrap()[0].queues.is_empty());
    assert_eq!(Processes::at(root.path()).find(Pid(9)).unwrap(), None);
}

#[test]
fn a_file_that_holds_no_number_is_named() {
    let root = tempfile::tempdir().unwrap();
    process_with_queue(root.path(), "7");
    write(&root.path().join("7/queues/0/type"), "compute");
    let said = Processes::at(root.path()).list().unwrap_err().to_string();
    assert!(said.contains("queues/0/type") && said.contains("\"compute\""), "{said}");
}

#[test]
fn without_a_driver_there_is_a_hint() {
    let said = Processes::at("/nonexistent/proc").list().unwrap_err().to_string();
    assert!(said.contains("is the amdgpu driver loaded?"), "{said}");
}

#[test]
fn single_values_are_read_on_demand_and_absent_with_their_process() {
    let root = tempfile::tempdir().unwrap();
    process_with_queue(root.path(), "7");
    let processes = Processes::at(root.path());
    let (pid, gpu) = (Pid(7), GpuId(51234));
    assert_eq!(processes.pids().unwrap(), [pid]);
    let [listed] = processes.queue_ids(pid).unwrap().unwrap()[..] else { panic!("one queue") };
    assert_eq!(listed.id, QueueId(0));
    assert_eq!(processes.cu_occupancy(pid, gpu).unwrap(), Some(152));
    assert_eq!((processes.vram(pid, gpu).unwrap(), processes.evicted_ms(pid, gpu).unwrap()), (Some(4096), Some(12)));
    assert_eq!(processes.cu_occupancy(pid, GpuId(1)).unwrap(), None);
    assert_eq!((processes.queue_ids(Pid(9)).unwrap(), processes.usage(Pid(9)).unwrap()), (None, None));
    assert_eq!(processes.queue(pid, QueueId(1)).unwrap(), None);
}
