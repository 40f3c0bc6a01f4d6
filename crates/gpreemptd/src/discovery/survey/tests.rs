//! Real processes beside files like the driver's.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use kfd::{GpuId, QueueId};

use super::*;
use crate::discovery::Process;
use crate::discovery::rings::tests::queue;

const GPU: GpuId = GpuId(0xF7BC);

/// A process that waits, and executes another program when told.
struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Client {
    fn start() -> Client {
        let mut command = Command::new("sh");
        command.args(["-c", "echo ready; read line; exec sh -c 'echo executed; read line'"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Client { child, input, output };
        client.hear("ready");
        client
    }

    fn hear(&mut self, expected: &str) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), expected);
    }

    fn execute(&mut self) {
        writeln!(self.input).unwrap();
        self.hear("executed");
    }

    fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Files like the driver's, and a survey of them whose time is ours.
struct Rig {
    root: tempfile::TempDir,
    survey: Survey,
    warnings: WarnOnce,
    now: Instant,
}

impl Rig {
    fn new() -> Rig {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("proc")).unwrap();
        let processes = Processes::at(root.path().join("proc"));
        let survey = Survey::new(processes, root.path().to_owned(), Vec::new());
        let rig = Rig { root, survey, warnings: WarnOnce::default(), now: Instant::now() };
        rig.show(&[]);
        rig
    }

    fn process(&self, pid: Pid) -> PathBuf {
        self.root.path().join("proc").join(pid.to_string())
    }

    fn open(&self, pid: Pid) {
        write(&self.process(pid).join(format!("vram_{GPU}")), "4096\n");
        fs::create_dir_all(self.process(pid).join("queues")).unwrap();
    }

    fn create(&self, pid: Pid, id: u32, kind: u32) {
        let directory = self.process(pid).join("queues").join(id.to_string());
        write(&directory.join("gpuid"), &GPU.to_string());
        write(&directory.join("type"), &kind.to_string());
        write(&directory.join("size"), "262144");
    }

    fn destroy(&self, pid: Pid, id: u32) {
        fs::remove_dir_all(self.process(pid).join("queues").join(id.to_string())).unwrap();
    }

    fn close(&self, pid: Pid) {
        fs::remove_dir_all(self.process(pid)).unwrap();
    }

    /// What debugfs shows: processes and the numbers of their rings.
    fn show(&self, shown: &[(Pid, &[u32])]) {
        let mut text = String::new();
        for (pid, rings) in shown {
            text.push_str(&format!("Process {pid} PASID 0x8001:\n"));
            rings.iter().for_each(|ring| queue(&mut text, GPU, *ring, true));
        }
        fs::write(self.root.path().join("mqds"), text).unwrap();
    }

    /// The next scan, so much later.
    fn scan_after(&mut self, pause: Duration) -> Vec<DiscoveryEvent> {
        self.now += pause;
        let mut found = Vec::new();
        self.survey.scan(self.now, &mut self.warnings, &mut found);
        found
    }

    fn scan(&mut self) -> Vec<DiscoveryEvent> {
        self.scan_after(Duration::from_millis(150))
    }

    /// The next scan, in which exactly one process is told.
    fn one(&mut self) -> Box<Process> {
        match self.scan().pop() {
            Some(DiscoveryEvent::Process(process)) => process,
            other => panic!("{other:?}"),
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn is_gone(found: &[DiscoveryEvent], expected: Pid) -> bool {
    matches!(found, [DiscoveryEvent::Gone { pid }] if *pid == expected)
}

#[test]
fn a_process_is_told_with_its_first_compute_queue_and_then_only_when_it_changes() {
    let mut rig = Rig::new();
    let client = Client::start();
    let pid = client.pid();
    rig.open(pid);
    assert!(rig.scan().is_empty());
    rig.create(pid, 0, 1);
    assert!(rig.scan().is_empty(), "a process with copies alone is not reported");
    rig.create(pid, 1, 0);
    rig.show(&[(pid, &[5])]);
    let process = rig.one();
    assert_eq!((process.identity.pid(), process.traced_by), (pid, None));
    assert!(process.memory.is_ok());
    let [tenant] = &process.tenants[..] else { panic!("{process:?}") };
    assert_eq!((tenant.gpu, tenant.vram, &tenant.blind), (GPU, 4096, &None));
    assert_eq!((&tenant.compute[..], &tenant.sdma[..]), (&[QueueId(1)][..], &[QueueId(0)][..]));
    assert_eq!(tenant.rings.len(), 1);
    rig.create(pid, 2, 0);
    rig.show(&[(pid, &[6, 5])]);
    let process = rig.one();
    assert_eq!((process.tenants[0].compute.len(), process.tenants[0].rings.len()), (2, 2));
    rig.destroy(pid, 1);
    rig.show(&[(pid, &[6])]);
    let process = rig.one();
    assert_eq!((&process.tenants[0].compute[..], process.tenants[0].rings[0].base), (&[QueueId(2)][..], 6 << 20));
    rig.destroy(pid, 2);
    assert!(is_gone(&rig.scan(), pid));
    assert!(rig.scan().is_empty());
}

#[test]
fn contexts_are_counted_warned_of_and_their_rings_are_the_processs() {
    let mut rig = Rig::new();
    let client = Client::start();
    let pid = client.pid();
    rig.open(pid);
    rig.create(pid, 0, 0);
    rig.show(&[(pid, &[5])]);
    assert_eq!(rig.one().contexts, 0);
    assert!(!rig.warnings.has_warned(&uncontrollable(pid)));
    let queue = rig.process(pid).join("context_3/queues/0");
    for (name, text) in [("gpuid", GPU.to_string()), ("type", "0".to_owned()), ("size", "262144".to_owned())] {
        write(&queue.join(name), &text);
    }
    rig.show(&[(pid, &[5]), (pid, &[6])]);
    rig.scan_after(SLOW);
    let process = rig.survey.known.get(&pid).unwrap().contexts();
    assert_eq!(process, 1);
    assert!(rig.warnings.has_warned(&uncontrollable(pid)));
    rig.survey.tell_again();
    let process = rig.one();
    assert_eq!((process.contexts, process.tenants[0].compute.len()), (1, 1));
    assert_eq!(process.tenants[0].rings.len(), 2);
    fs::remove_dir_all(rig.process(pid).join("context_3")).unwrap();
    rig.show(&[(pid, &[5])]);
    rig.scan_after(SLOW);
    rig.survey.tell_again();
    assert_eq!((rig.one().contexts), 0);
}

#[test]
fn a_process_with_queues_in_another_context_alone_is_warned_of() {
    let mut rig = Rig::new();
    let client = Client::start();
    let pid = client.pid();
    rig.open(pid);
    fs::create_dir_all(rig.process(pid).join("context_0/queues")).unwrap();
    assert!(rig.scan().is_empty(), "there is no queue that could be stopped");
    assert!(rig.warnings.has_warned(&uncontrollable(pid)));
}

#[test]
fn a_copy_queue_has_either_number_and_one_of_an_unknown_kind_is_none() {
    let mut rig = Rig::new();
    let client = Client::start();
    let pid = client.pid();
    rig.open(pid);
    for (id, kind) in [(0, 0), (1, 1), (2, 3), (3, 4), (4, 9)] {
        rig.create(pid, id, kind);
    }
    let process = rig.one();
    assert_eq!(
        (&process.tenants[0].compute[..], &process.tenants[0].sdma[..]),
        (&[QueueId(0)][..], &[1, 2, 3].map(QueueId)[..])
    );
}

#[test]
fn a_queue_replaced_by_one_of_the_same_number_has_its_own_ring() {
    let mut rig = Rig::new();
    let client = Client::start();
    let pid = client.pid();
    rig.open(pid);
    rig.create(pid, 0, 0);
    rig.show(&[(pid, &[5])]);
    assert_eq!(rig.one().tenants[0].rings[0].base, 5 << 20);
    // Made before the other is removed, so that the file system cannot use its number again.
    let queues = rig.process(pid).join("queues");
    let next = rig.root.path().join("next");
    for name in ["gpuid", "type", "size"] {
        write(&next.join(name), &fs::read_to_string(queues.join("0").join(name)).unwrap());
    }
    rig.destroy(pid, 0);
    fs::rename(next, queues.join("0")).unwrap();
    rig.show(&[(pid, &[6])]);
    assert_eq!(rig.one().tenants[0].rings[0].base, 6 << 20);
}

#[test]
fn a_process_that_ends_is_gone_before_the_driver_forgets_it() {
    let mut rig = Rig::new();
    let mut client = Client::start();
    let pid = client.pid();
    rig.open(pid);
    rig.create(pid, 0, 0);
    rig.show(&[(pid, &[5])]);
    rig.one();
    client.kill();
    assert!(is_gone(&rig.scan(), pid));
    assert!(rig.scan().is_empty());
    rig.close(pid);
    assert!(rig.scan().is_empty());
}

#[test]
fn a_process_that_the_driver_forgets_is_gone() {
    let mut rig = Rig::new();
    let client = Client::start();
    let pid = client.pid();
    rig.open(pid);
    rig.create(pid, 0, 0);
    rig.show(&[(pid, &[5])]);
    rig.one();
    rig.close(pid);
    assert!(is_gone(&rig.scan(), pid));
}

#[test]
fn a_process_that_executes_another_program_is_another() {
    let mut rig = Rig::new();
    let mut client = Client::start();
    let pid = client.pid();
    rig.open(pid);
    rig.create(pid, 0, 0);
    rig.show(&[(pid, &[5])]);
    let before = rig.one();
    client.execute();
    let found = rig.scan_after(Duration::from_millis(5));
    assert!(is_gone(&found, pid), "what the driver still lists is not the new program's: {found:?}");
    rig.destroy(pid, 0);
    assert!(rig.scan_after(Duration::from_millis(5)).is_empty());
    rig.create(pid, 0, 0);
    let after = rig.one();
    assert_eq!(after.identity.started, before.identity.started);
    assert_ne!(after.identity.command, before.identity.command);
    assert!(after.memory.as_ref().unwrap().is_current() && !before.memory.as_ref().unwrap().is_current());
}

#[test]
fn while_rings_are_not_known_the_process_is_told_with_the_reason() {
    let mut rig = Rig::new();
    let client = Client::start();
    let pid = client.pid();
    rig.open(pid);
    rig.create(pid, 0, 0);
    let process = rig.one();
    assert!(process.tenants[0].rings.is_empty() && process.tenants[0].blind.is_some());
    assert!(rig.scan().is_empty(), "nothing changed");
    rig.show(&[(pid, &[5])]);
    let process = rig.one();
    assert_eq!((process.tenants[0].rings.len(), &process.tenants[0].blind), (1, &None));
}

#[test]
fn memory_and_variables_are_told_when_they_change() {
    let mut rig = Rig::new();
    let client = Client::start();
    let pid = client.pid();
    rig.open(pid);
    rig.create(pid, 0, 0);
    rig.show(&[(pid, &[5])]);
    assert!(!rig.one().identity.environment.contains_key("PATH"));
    write(&rig.process(pid).join(format!("vram_{GPU}")), "8192\n");
    // Not in every scan.
    assert!(rig.scan_after(Duration::from_millis(5)).is_empty());
    rig.now += SLOW;
    assert_eq!(rig.one().tenants[0].vram, 8192);
    rig.survey.ask_for(vec!["PATH".to_owned()]);
    assert!(rig.one().identity.environment.contains_key("PATH"));
    rig.survey.ask_for(vec!["PATH".to_owned()]);
    assert!(rig.scan().is_empty());
}

#[test]
fn strange_files_and_processes_hide_no_others() {
    let mut rig = Rig::new();
    let client = Client::start();
    let (pid, strange, absent) = (client.pid(), Pid(1 << 29), Pid((1 << 29) + 1));
    for pid in [pid, strange, absent] {
        rig.open(pid);
        rig.create(pid, 0, 0);
    }
    write(&rig.process(strange).join("queues/0/type"), "strange");
    rig.show(&[(pid, &[5])]);
    let found = rig.scan();
    assert!(matches!(&found[..], [DiscoveryEvent::Process(process)] if process.identity.pid() == pid), "{found:?}");
    let error = rig.survey.processes.queue(strange, QueueId(0)).unwrap_err();
    assert!(rig.warnings.has_warned(&error.to_string()));
}
