//! What the firmware does with packets, tested with barrier packets, which need no code.

use kfd_abi::aql::{Barrier, Header, PacketType};
use kfd_abi::mqd;
use kfd_abi::queue::DOORBELL_SLICE;

use crate::actor::encode;
use crate::bench::{Bench, Client, WATCH, driver_file, eventually};
use crate::queue::Made;
use crate::rule::driver_rules;
use crate::verdict::{Verdict, broken, equal, require};
use crate::wire::Request;

// tidy: table
driver_rules! { Firmware:
    "packet-completes" completes, "HSA Platform System Architecture 1.2, 2.9: barrier-AND packet",
        "A barrier packet without signals counts its completion signal down by one.";
    "packet-waits" waits, "HSA Platform System Architecture 1.2, 2.9: barrier-AND packet",
        "A barrier packet waits until its signal is 0, and the packets behind it wait as well.";
    "packet-read-index" read_index, "kfd_mqd_manager_v9.c: update_mqd (rptr_report_addr); AQL read index",
        "When all packets have completed, the read index in memory is the write index.";
    "packet-invalid-waits" invalid_waits, "HSA Platform System Architecture 1.2, 2.9: INVALID packets",
        "A packet whose header is invalid is not executed until its header is written.";
    "packet-stopped" stopped, "kfd_device_queue_manager.c: suspend_queues; MAP_QUEUES",
        "A stopped queue executes no packets, and a doorbell that is rung meanwhile is not lost.";
    "packet-off" off, "kfd_priv.h: QUEUE_IS_ACTIVE; MAP_QUEUES",
        "A queue at 0 percent executes no packets; at 100 percent it goes on.";
    "packet-stopped-at-barrier" stopped_at_barrier, "kfd_device_queue_manager.c: suspend_queues",
        "A queue that is stopped while its barrier waits goes on behind the barrier after it is resumed.";
    "packet-others-run" others_run, "kfd_device_queue_manager.c: suspend_queues, map_queues_cpsch",
        "While a queue is stopped, queues of the same and of other processes execute packets.";
    "packet-oversubscribed" oversubscribed, "kfd_packet_manager.c: pm_calc_rlib_size; RUN_LIST chained",
        "More active queues than the hardware has slots all execute their packets, in turns.";
    "packet-after-tracer-death" after_death, "kfd_process.c: kfd_process_notifier_release_internal",
        "Packets of a stopped queue are executed after its debugger was killed.";
    "packet-priority-change" priority_change, "kfd_mqd_manager_v9.c: update_mqd",
        "A queue whose priority changes while a packet waits goes on with that packet.";
    "mqds-after-unmap" mqd_after_unmap, "v9_structs.h: cp_hqd_pq_rptr, cp_hqd_pq_wptr_lo",
        "The indices in the descriptor of a stopped queue that did all its work are equal.";
}

/// A client with the means to submit packets.
struct Lane {
    queue: Made,
    doorbell: u64,
    /// Where signals lie.
    signals: u64,
    written: u64,
}

/// Bytes of a signal, and where its value is.
const SIGNAL: u64 = 64;
const VALUE: u64 = 8;

impl Lane {
    fn new(client: &mut Client) -> Verdict<Lane> {
        let queue = client.queue()?;
        Lane::of(client, queue)
    }

    fn of(client: &mut Client, queue: Made) -> Verdict<Lane> {
        let offset = queue.args.doorbell_offset;
        let slice = u64::from(DOORBELL_SLICE);
        let kfd = client.kfd;
        let page = client.actor.map_file(None, DOORBELL_SLICE as usize, kfd, offset & !(slice - 1))?;
        let signals = client.shared_buffer(4096)?.at;
        Ok(Lane { queue, doorbell: page + (offset & (slice - 1)), signals, written: 0 })
    }

    /// Sets a signal up with a value and returns its handle.
    fn signal(&self, client: &mut Client, nth: u64, value: i64) -> Verdict<u64> {
        let at = self.signals + nth * SIGNAL;
        let mut bytes = vec![0; SIGNAL as usize];
        // An ordinary signal: kind 1.
        bytes[..8].copy_from_slice(&1_i64.to_le_bytes());
        bytes[8..16].copy_from_slice(&value.to_le_bytes());
        client.actor.write(at, bytes)?;
        Ok(at)
    }

    fn value(&self, client: &mut Client, signal: u64) -> Verdict<i64> {
        client.actor.get(signal + VALUE)
    }

    fn set(&self, client: &mut Client, signal: u64, value: i64) -> Verdict {
        client.actor.done(&Request::Store { at: signal + VALUE, value: value.cast_unsigned() })
    }

    /// Writes a barrier packet that waits for a signal, or for none; returns where its header is.
    fn put(&mut self, client: &mut Client, waits_for: u64, completion: u64, valid: bool) -> Verdict<u64> {
        let packets = u64::from(self.queue.args.ring_size) / 64;
        let at = self.queue.ring.at + self.written % packets * 64;
        let packet = Barrier {
            header: if valid { barrier_header() } else { Header(PacketType::INVALID.0.into()) },
            dep_signal: [waits_for, 0, 0, 0, 0],
            completion_signal: completion,
            ..Barrier::default()
        };
        client.actor.write(at, encode(&packet))?;
        self.written += 1;
        let value = self.written;
        client.actor.done(&Request::Store { at: self.queue.args.write_pointer_address, value })?;
        Ok(at)
    }

    fn ring(&self, client: &mut Client) -> Verdict {
        client.actor.done(&Request::Store { at: self.doorbell, value: self.written.wrapping_sub(1) })
    }

    /// Submits a barrier packet.
    fn submit(&mut self, client: &mut Client, waits_for: u64, completion: u64) -> Verdict {
        self.put(client, waits_for, completion, true)?;
        self.ring(client)
    }

    /// Waits until a signal is 0.
    fn done(&self, client: &mut Client, what: &str, signal: u64) -> Verdict {
        eventually(what, || Ok(self.value(client, signal)? == 0))
    }

    /// Requires that a signal stays as it is for a while.
    fn stays(&self, client: &mut Client, what: &str, signal: u64, value: i64) -> Verdict {
        std::thread::sleep(WATCH);
        equal(what, self.value(client, signal)?, value)
    }
}

/// Barrier-AND that waits for the packets before it, with fences of the whole system.
fn barrier_header() -> Header {
    Header(u16::from(PacketType::BARRIER_AND.0) | 1 << 8 | 2 << 9 | 2 << 11)
}

fn completes(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let mut lane = Lane::new(&mut client)?;
    let signal = lane.signal(&mut client, 0, 3)?;
    lane.submit(&mut client, 0, signal)?;
    eventually("the signal is counted down", || Ok(lane.value(&mut client, signal)? == 2))?;
    lane.stays(&mut client, "the signal later", signal, 2)
}

fn waits(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let mut lane = Lane::new(&mut client)?;
    let (gate, first, second) =
        (lane.signal(&mut client, 0, 1)?, lane.signal(&mut client, 1, 1)?, lane.signal(&mut client, 2, 1)?);
    lane.submit(&mut client, gate, first)?;
    lane.submit(&mut client, 0, second)?;
    lane.stays(&mut client, "the first, before its signal", first, 1)?;
    equal("the second, before the first", lane.value(&mut client, second)?, 1)?;
    lane.set(&mut client, gate, 0)?;
    lane.done(&mut client, "the first packet completes", first)?;
    lane.done(&mut client, "the second packet completes", second)
}

fn read_index(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let mut lane = Lane::new(&mut client)?;
    let signal = lane.signal(&mut client, 0, 5)?;
    for _ in 0..5 {
        lane.submit(&mut client, 0, signal)?;
    }
    lane.done(&mut client, "all packets complete", signal)?;
    let at = lane.queue.args.read_pointer_address;
    eventually("the read index is 5", || Ok(client.actor.get::<u64>(at)? == 5))
}

fn invalid_waits(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let mut lane = Lane::new(&mut client)?;
    let signal = lane.signal(&mut client, 0, 1)?;
    let header = lane.put(&mut client, 0, signal, false)?;
    lane.ring(&mut client)?;
    lane.stays(&mut client, "the signal of an invalid packet", signal, 1)?;
    client.actor.done(&Request::Store { at: header, value: barrier_header().0.into() })?;
    lane.ring(&mut client)?;
    lane.done(&mut client, "the packet completes", signal)
}

fn stopped(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let mut lane = Lane::new(&mut client)?;
    let mut session = bench.debugger(&client)?;
    session.stop(&[lane.queue.id])?;
    let signal = lane.signal(&mut client, 0, 1)?;
    lane.submit(&mut client, 0, signal)?;
    lane.stays(&mut client, "the signal while the queue is stopped", signal, 1)?;
    equal("RESUME_QUEUES", session.resume(&[lane.queue.id])?.result, 1)?;
    lane.done(&mut client, "the packet completes", signal)
}

fn off(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let mut lane = Lane::new(&mut client)?;
    let queue = lane.queue;
    client.update(&queue, |args| args.queue_percentage = 0)?.ok("UPDATE_QUEUE to 0 percent")?;
    let signal = lane.signal(&mut client, 0, 1)?;
    lane.submit(&mut client, 0, signal)?;
    lane.stays(&mut client, "the signal while the queue is off", signal, 1)?;
    client.update(&queue, |_| {})?.ok("UPDATE_QUEUE to 100 percent")?;
    lane.done(&mut client, "the packet completes", signal)
}

fn stopped_at_barrier(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let mut lane = Lane::new(&mut client)?;
    let (gate, signal) = (lane.signal(&mut client, 0, 1)?, lane.signal(&mut client, 1, 1)?);
    lane.submit(&mut client, gate, signal)?;
    let mut session = bench.debugger(&client)?;
    session.stop(&[lane.queue.id])?;
    lane.set(&mut client, gate, 0)?;
    lane.stays(&mut client, "the signal while the queue is stopped", signal, 1)?;
    equal("RESUME_QUEUES", session.resume(&[lane.queue.id])?.result, 1)?;
    lane.done(&mut client, "the packet completes", signal)
}

fn others_run(bench: &Bench<'_>) -> Verdict {
    let (mut client, mut other) = (bench.program()?, bench.program()?);
    let (victim, mut own, mut foreign) = (client.queue()?, Lane::new(&mut client)?, Lane::new(&mut other)?);
    let mut session = bench.debugger(&client)?;
    session.stop(&[victim.id])?;
    for (client, lane) in [(&mut client, &mut own), (&mut other, &mut foreign)] {
        let signal = lane.signal(client, 0, 1)?;
        lane.submit(client, 0, signal)?;
        lane.done(client, "a packet of a queue that is not stopped completes", signal)?;
    }
    Ok(())
}

fn oversubscribed(bench: &Bench<'_>) -> Verdict {
    let slots = bench.subject.gpu.hardware_queues;
    let mut client = bench.program()?;
    // One save area for all: none of them ever has a wave.
    let first = client.queue()?;
    let mut lanes = vec![Lane::of(&mut client, first)?];
    while lanes.len() <= slots as usize + 2 {
        let ring = client.shared_buffer(crate::queue::RING.into())?;
        let indices = client.shared_buffer(4096)?;
        let mut args = first.args;
        args.ring_base_address = ring.at;
        args.write_pointer_address = indices.at + crate::queue::WRITE_INDEX;
        args.read_pointer_address = indices.at + crate::queue::READ_INDEX;
        let args = client.call(args)?.ok("CREATE_QUEUE")?;
        lanes.push(Lane::of(&mut client, Made { id: args.queue_id, args, ring })?);
    }
    let mut signals = Vec::new();
    for lane in &mut lanes {
        let signal = lane.signal(&mut client, 0, 1)?;
        lane.submit(&mut client, 0, signal)?;
        signals.push(signal);
    }
    for (nth, (lane, signal)) in lanes.iter().zip(signals).enumerate() {
        lane.done(&mut client, &format!("the packet of queue {nth} of {} completes", lanes.len()), signal)?;
    }
    Ok(())
}

fn after_death(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let mut lane = Lane::new(&mut client)?;
    let mut session = bench.debugger(&client)?;
    session.stop(&[lane.queue.id])?;
    let signal = lane.signal(&mut client, 0, 1)?;
    lane.submit(&mut client, 0, signal)?;
    session.tracer.actor.kill();
    lane.done(&mut client, "the packet completes", signal)
}

fn priority_change(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let mut lane = Lane::new(&mut client)?;
    let (gate, signal) = (lane.signal(&mut client, 0, 1)?, lane.signal(&mut client, 1, 1)?);
    lane.submit(&mut client, gate, signal)?;
    let queue = lane.queue;
    client.update(&queue, |args| args.queue_priority = 15)?.ok("UPDATE_QUEUE")?;
    lane.set(&mut client, gate, 0)?;
    lane.done(&mut client, "the packet completes", signal)
}

fn mqd_after_unmap(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let mut lane = Lane::new(&mut client)?;
    let signal = lane.signal(&mut client, 0, 3)?;
    for _ in 0..3 {
        lane.submit(&mut client, 0, signal)?;
    }
    lane.done(&mut client, "all packets complete", signal)?;
    bench.debugger(&client)?.stop(&[lane.queue.id])?;
    let text = driver_file(&format!("{}/mqds", kfd_abi::sysfs::DEBUG_DIR))?;
    let processes = kfd::debugfs::parse_queues(&text);
    let process = processes.iter().find(|process| process.pid == client.pid());
    let Some(shown) = process.and_then(|process| process.queues.first()?.descriptors.first()) else {
        return broken("mqds does not show the queue");
    };
    let (read, written) = (shown.word(mqd::PQ_RPTR), shown.word(mqd::PQ_WPTR));
    require(read.is_some() && read == written, format_args!("read index {read:?}, write index {written:?}"))
}

/// Finds out when the read index passes a packet: when it retires, or at its fetch. Whether it goes back when waves are
/// saved does not show with packets that have none.
pub(crate) fn read_index_kind(bench: &Bench<'_>) -> Verdict<&'static str> {
    let mut client = bench.program()?;
    let mut lane = Lane::new(&mut client)?;
    let (gate, signal) = (lane.signal(&mut client, 0, 1)?, lane.signal(&mut client, 1, 1)?);
    lane.submit(&mut client, gate, signal)?;
    lane.stays(&mut client, "the signal of a packet that waits", signal, 1)?;
    let passed: u64 = client.actor.get(lane.queue.args.read_pointer_address)?;
    Ok(if passed == 0 { "retire" } else { "fetch" })
}
