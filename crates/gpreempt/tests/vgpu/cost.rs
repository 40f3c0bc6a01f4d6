//! What cycles cost: what they save and what they bring back, each once.

use std::sync::Arc;

use gpreempt_testkit::scene::{status, waves};
use gpreempt_testkit::{play, this_test, until};
use kfd::{Grace, Kfd, QueueId, Tracer};
use serde_json::Value;

/// What the cycles of a gpu have counted, for one cause or for all.
fn counted(status: &Value, cause: Option<&str>, what: &str) -> u64 {
    let causes = status["gpus"][0]["cycles"].as_object().expect("an object");
    let wanted = causes.iter().filter(|(name, _)| cause.is_none_or(|cause| cause == *name));
    wanted.map(|(_, cycles)| cycles[what].as_u64().expect("a number")).sum()
}

#[test]
fn a_stopped_queue_is_paid_for_when_it_leaves_and_when_it_comes_back() {
    play(this_test!(), &[], |scene| {
        const GROUPS: u32 = 4;
        let (mut client, queue) = scene.walker(GROUPS);
        // Another queue of the same process stays on the gpu and leaves it in every cycle.
        client.queue(7);
        until("all workgroups run", || waves(&status(), client.pid().0) == u64::from(GROUPS));
        let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), client.pid()).unwrap();
        let before = status();
        assert!(tracer.suspend(&[QueueId(queue)], Grace::HARDWARE).unwrap().all_done());
        let stopped = status();
        let more = |now: &Value, then: &Value, cause, what| counted(now, cause, what) - counted(then, cause, what);
        let suspended = |what| more(&stopped, &before, Some("suspend"), what);
        assert_eq!((suspended("count"), suspended("waves")), (1, u64::from(GROUPS)));
        let bytes = suspended("bytes");
        assert!(bytes > 0);
        assert_eq!(more(&stopped, &before, None, "bytes"), bytes, "nothing else was saved");
        assert_eq!(suspended("restored_bytes"), 0, "it stays away");

        // Cycles of the same process and of another one while it is stopped.
        let mut other = scene.actor();
        other.ask("open");
        other.queue(7);
        client.queue(7);
        let later = status();
        let others = |what| more(&later, &stopped, None, what);
        assert!(others("count") >= 2);
        for what in ["waves", "bytes", "restored_bytes"] {
            assert_eq!(others(what), 0, "{what}: {later:#}");
        }

        assert!(tracer.resume(&[QueueId(queue)]).unwrap().all_done());
        let resumed = status();
        let resume = |what| more(&resumed, &later, Some("resume"), what);
        assert_eq!((resume("count"), resume("bytes"), resume("restored_bytes")), (1, 0, bytes));
        // The model charges for what comes back beyond what every cycle costs.
        assert!(resume("modelled_ns") > others("modelled_ns") / others("count"), "{resumed:#}");
        assert!(resume("total_ns") > resume("modelled_ns"));
        tracer.close().unwrap();
        client.enough();
        client.must_end_right(0);
        client.leave();
        other.leave();
    });
}
