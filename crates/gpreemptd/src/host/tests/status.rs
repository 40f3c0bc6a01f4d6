//! The status is a view: building it changes nothing and reads no memory.

use gpreempt_proto::State;

use super::*;
use crate::observe::TenantProbe;
use crate::observe::fake::{Bytes, Fake};
use crate::observe::tests::reads;

impl Fixture {
    /// A tenant whose ring is in this process's memory.
    fn watched(&mut self, pid: u32, environment: &[(&str, &str)]) -> Fake {
        let fake = Fake::new(64, 1);
        self.process(pid, OWNER, environment);
        let tenant = self.host.world.tenants.get_mut(&tenant(pid)).unwrap();
        let memory = Arc::new(kfd::ProcessMemory::open(Pid(std::process::id())).unwrap());
        tenant.probe = Some(TenantProbe::new(memory, &[fake.ring()]));
        fake
    }

    fn state(&mut self, pid: u32) -> State {
        let status = self.host.status(self.now);
        status.tenants.iter().find(|tenant| tenant.pid == pid).unwrap().state
    }

    /// Everything that decides what happens next.
    fn deciding_state(&self) -> String {
        let Host { core, world, timers, bursts, pending, sessions, .. } = &self.host;
        format!("{core:?} {world:?} {timers:?} {bursts:?} {pending:?} {sessions:?}")
    }
}

#[test]
fn a_status_of_a_gpu_without_competition_reads_no_memory() {
    let mut world = world();
    let fake = world.watched(10, &[]);
    fake.submit(0, &[Bytes::kernel()]);
    world.host.act(world.now);
    let before = reads();
    world.host.pending.status_wanted();
    world.host.act(world.now);
    world.host.take(Input::Discovery(DiscoveryEvent::Scanned { at: world.now }), world.now);
    assert_eq!(world.state(10), State::Unknown);
    assert_eq!(reads(), before);
    // A job that could displace it makes it worth watching.
    let _high = world.watched(11, &[("ROLE", "serve")]);
    world.host.act(world.now);
    world.host.take(Input::Discovery(DiscoveryEvent::Scanned { at: world.now }), world.now);
    assert!(reads() > before);
    assert_eq!((world.state(10), world.state(11)), (State::Wants, State::Idle));
}

#[test]
fn a_client_that_asks_for_the_status_changes_no_decision() {
    let mut world = world();
    let low = world.watched(10, &[]);
    let high = world.watched(11, &[("ROLE", "serve")]);
    low.submit(0, &[Bytes::kernel()]);
    world.host.act(world.now);
    // Work that no poll has seen yet.
    high.submit(0, &[Bytes::kernel()]);
    let (before, seen) = (world.deciding_state(), reads());
    for _ in 0..2 {
        world.host.publish_status(world.now);
    }
    assert_eq!(reads(), seen);
    assert_eq!(world.deciding_state(), before);
    assert_eq!(world.state(11), State::Idle, "as it was polled last");
}

/// Which kind of read index a gpu has is a matter of its firmware, and any queue may show it.
#[test]
fn an_index_that_passes_unfinished_work_of_one_tenant_is_believed_of_no_tenant_there() {
    let mut world = world();
    let low = world.watched(10, &[]);
    let _high = world.watched(11, &[("ROLE", "serve")]);
    let scan = |world: &mut Fixture| {
        world.now = world.now.plus(Nanos::from_millis(1));
        world.host.act(world.now);
        world.host.take(Input::Discovery(DiscoveryEvent::Scanned { at: world.now }), world.now);
        [10, 11].map(|pid| world.host.world.tenants[&tenant(pid)].probe.as_ref().unwrap().refutes_retirement())
    };
    low.submit(0, &[Bytes::kernel()]);
    low.fetch(0, 1);
    assert_eq!(scan(&mut world), [false, false]);
    // Its queue is saved, and the index comes back.
    low.set_read(0);
    assert_eq!(scan(&mut world), [true, true]);
}
