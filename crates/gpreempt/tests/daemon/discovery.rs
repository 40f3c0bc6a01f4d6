//! What the discovery thread tells of processes that use the virtual gpu.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpreempt_observe::RingFormat;
use gpreempt_testkit::{play, this_test, until};
use gpreemptd::discovery::{self, Discovery, DiscoveryEvent, DiscoveryRequest, Process, ResumeCause, Settings, Tenant};
use gpreemptd::inbox::{Inbox, Input};
use gpreemptd::os::channel::channel;
use kfd::{Grace, Kfd, Pid, ProcessMemory, QueueId, Tracer};

/// Longest wait for something that the discovery thread must tell.
const PATIENCE: Duration = Duration::from_secs(60);

/// A discovery thread and what it has told.
struct Lookout {
    discovery: Discovery,
    told: Inbox,
}

impl Lookout {
    fn start() -> Lookout {
        let (to, told) = channel().expect("a descriptor");
        let settings = Settings { scan: Duration::from_millis(5), variables: Vec::new() };
        Lookout { discovery: discovery::start(settings, to).expect("a thread"), told }
    }

    /// The first of the things it tells that is looked for. Others are passed over.
    fn first<T>(&self, what: &str, mut looked_for: impl FnMut(DiscoveryEvent) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let Ok(input) = self.told.recv_timeout(rest) else { panic!("{what}: not told") };
            let Input::Discovery(event) = input else { panic!("{input:?} is not the discovery thread's to tell") };
            if let Some(found) = looked_for(event) {
                return found;
            }
        }
    }

    /// The next that it tells of a process in which something holds.
    fn process(&self, pid: Pid, what: &str, holds: impl Fn(&Tenant) -> bool) -> Box<Process> {
        self.first(what, |event| match event {
            DiscoveryEvent::Process(process) if process.identity.pid() == pid && process.tenants.iter().any(&holds) => {
                Some(process)
            }
            _ => None,
        })
    }

    fn gone(&self, gone: Pid) {
        self.first("it is gone", |event| matches!(event, DiscoveryEvent::Gone { pid } if pid == gone).then_some(()));
    }

    fn leaving(&self, leaving: Pid) -> ResumeCause {
        self.first("it wants to go", |event| match event {
            DiscoveryEvent::MustResume { pid, cause } if pid == leaving => Some(cause),
            _ => None,
        })
    }

    /// Waits until two more scans have begun, so that one of them began after the call.
    fn scan(&self) {
        for _ in 0..2 {
            self.first("a scan", |event| matches!(event, DiscoveryEvent::Scanned { .. }).then_some(()));
        }
    }
}

#[test]
fn gpus_are_told_first_and_by_their_product_name() {
    play(this_test!(), &["--profile", "mi300x-cpx", "--gpus", "8"], |_| {
        let lookout = Lookout::start();
        let Ok(Input::Discovery(DiscoveryEvent::Gpus(gpus))) = lookout.told.recv() else {
            panic!("the gpus come first")
        };
        assert_eq!(gpus.len(), 8);
        for (at, gpu) in gpus.iter().enumerate() {
            assert!(gpu.address.ends_with(&format!("00.0/{at}")), "{gpu:?}");
            assert!(gpu.name.contains("MI300X") && gpu.cus > 0 && gpu.waves_per_cu > 0, "{gpu:?}");
        }
    });
}

#[test]
fn a_process_is_told_with_the_rings_it_really_has_until_it_is_killed() {
    play(this_test!(), &[], |scene| {
        let lookout = Lookout::start();
        let mut client = scene.actor();
        let pid = client.pid();
        client.ask("open");
        let first = client.queue(7);
        let told = lookout.process(pid, "a queue with its ring", |tenant| tenant.rings.len() == 1);
        assert_eq!((told.identity.pid(), told.traced_by, told.tenants.len()), (pid, None, 1));
        assert_eq!((&told.tenants[0].compute[..], &told.tenants[0].blind), (&[QueueId(first)][..], &None));
        client.queue(7);
        let told = lookout.process(pid, "another queue", |tenant| tenant.rings.len() == 2);

        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), pid).unwrap();
        let mut snapshot = tracer.snapshot().unwrap();
        tracer.close().unwrap();
        let mut rings = told.tenants[0].rings.clone();
        snapshot.sort_by_key(|entry| entry.ring_base_address);
        rings.sort_by_key(|ring| ring.base);
        let memory: &ProcessMemory = told.memory.as_ref().unwrap();
        for (ring, entry) in rings.iter().zip(&snapshot) {
            assert_eq!((ring.format, ring.base), (RingFormat::Aql, entry.ring_base_address));
            assert_eq!(ring.bytes, u64::from(entry.ring_size));
            assert_eq!((ring.read_index, ring.write_index), (entry.read_pointer_address, entry.write_pointer_address));
            // The packet that loaded the program.
            assert_eq!(memory.read_u64(ring.write_index).unwrap(), 1);
        }
        client.ask(&format!("destroy {first}"));
        lookout.process(pid, "one queue less", |tenant| tenant.compute.len() == 1 && tenant.rings.len() == 1);
        client.kill();
        lookout.gone(pid);
    });
}

#[test]
fn a_process_without_queues_is_not_reported() {
    play(this_test!(), &[], |scene| {
        let lookout = Lookout::start();
        let mut client = scene.actor();
        client.ask("open");
        until("the driver lists it", || kfd::process::find(client.pid()).unwrap().is_some());
        let told = |event| match event {
            DiscoveryEvent::Process(process) => panic!("{process:?}"),
            DiscoveryEvent::Scanned { .. } => Some(()),
            _ => None,
        };
        for _ in 0..20 {
            lookout.first("a scan", told);
        }
        client.leave();
    });
}

#[test]
fn a_process_that_executes_another_program_is_gone_and_comes_back_as_another() {
    play(this_test!(), &[], |scene| {
        let lookout = Lookout::start();
        let mut client = scene.actor();
        let pid = client.pid();
        client.ask("open");
        client.queue(7);
        let before = lookout.process(pid, "a queue with its ring", |tenant| tenant.rings.len() == 1);
        assert_eq!(client.ask("execute"), "ready");
        lookout.gone(pid);
        assert!(!before.memory.as_ref().unwrap().is_current());
        client.ask("open");
        client.queue(7);
        let after = lookout.process(pid, "it comes back", |tenant| tenant.rings.len() == 1);
        assert_eq!(after.identity.started, before.identity.started);
        let index = after.memory.as_ref().unwrap().read_u64(after.tenants[0].rings[0].write_index);
        assert_eq!(index.unwrap(), 1);
        client.leave();
        lookout.gone(pid);
    });
}

#[test]
fn a_sample_says_how_much_of_the_gpu_a_process_holds() {
    play(this_test!(), &[], |scene| {
        let lookout = Lookout::start();
        let (mut client, _) = scene.walker(64);
        let pid = client.pid();
        let process = lookout.process(pid, "its queue", |tenant| tenant.vram > 0);
        let gpu = process.tenants[0].gpu;
        let sample = || {
            lookout.discovery.tell(DiscoveryRequest::SampleOccupancy(vec![(pid, gpu)]));
            lookout.first("a sample", |event| match event {
                DiscoveryEvent::Occupancy(sample) => Some(sample),
                _ => None,
            })
        };
        let busy = sample();
        assert_eq!((busy.pid, busy.gpu, busy.evicted_ms), (pid, gpu, Some(0)));
        until("its waves are seen", || sample().occupied_cus > Some(0));
        client.enough();
        client.must_end_right(0);
        until("its waves are gone", || sample().occupied_cus == Some(0));
        client.leave();
        until("it is not there any more", || sample().occupied_cus.is_none());
    });
}

#[test]
fn a_stopped_process_that_wants_to_destroy_a_queue_is_found() {
    play(this_test!(), &[], |scene| {
        let lookout = Lookout::start();
        let (mut client, queue) = scene.walker(2);
        let pid = client.pid();
        lookout.process(pid, "its queue", |tenant| tenant.rings.len() == 1);
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), pid).unwrap();
        tracer.snapshot().unwrap();
        assert!(tracer.suspend(&[QueueId(queue)], Grace::SHORTEST).unwrap().all_done());
        lookout.discovery.tell(DiscoveryRequest::Stopped(vec![pid]));
        lookout.scan();
        client.say(&format!("destroy {queue}"));
        assert_eq!(lookout.leaving(pid), ResumeCause::Destroying);
        tracer.resume(&[QueueId(queue)]).unwrap();
        assert_eq!(client.answer(), Ok(String::new()));
        tracer.close().unwrap();
    });
}

#[test]
fn a_debugger_is_told_while_it_is_attached() {
    play(this_test!(), &[], |scene| {
        let lookout = Lookout::start();
        let mut client = scene.actor();
        let pid = client.pid();
        let own = Pid(std::process::id());
        client.ask("open");
        client.queue(7);
        lookout.process(pid, "a queue with its ring", |tenant| tenant.rings.len() == 1);
        let traced_by = |expected: Option<Pid>| {
            lookout.first("another tracer", |event| match event {
                DiscoveryEvent::Process(process) if process.traced_by == expected => Some(()),
                _ => None,
            });
        };
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), pid).unwrap();
        traced_by(Some(own));
        tracer.close().unwrap();
        traced_by(None);
        client.leave();
    });
}
