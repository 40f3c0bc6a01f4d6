//! A debug session of one client with another.

use kfd_abi::debug::{
    Disable, Enable, GRACE_PERIOD_DEFAULT, GetQueueSnapshot, QueryDebugEvent, QueueSnapshotEntry, ResumeQueues,
    RuntimeInfo, SendRuntimeEvent, SuspendQueues, TrapArgs,
};
use kfd_abi::exception::ExceptionMask;
use kfd_abi::{Abi, PAGE_SIZE};

use crate::actor::{Reply, encode};
use crate::bench::{Bench, Client};
use crate::verdict::{Verdict, broken};
use crate::wire::Request;

/// A process that traces another and debugs it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) tracer: Client,
    pub(crate) target: u32,
    /// What the driver reports through.
    pub(crate) reports: i32,
    report_end: i32,
    /// Memory for lists, a page.
    list: u64,
    /// Memory for snapshots.
    room: u64,
}

/// Room for snapshots.
const ROOM: usize = 16 * PAGE_SIZE as usize;

/// What a call that lists queues answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) result: i64,
    /// The list as the driver left it.
    pub(crate) entries: Vec<u32>,
}

impl Bench<'_> {
    /// Starts a process that traces the target and has not enabled a session.
    pub(crate) fn tracer(&self, target: &Client) -> Verdict<Session> {
        let mut session = self.stranger(target)?;
        session.tracer.actor.done(&Request::Seize { pid: session.target })?;
        Ok(session)
    }

    /// Starts a process that could debug the target but does not trace it.
    pub(crate) fn stranger(&self, target: &Client) -> Verdict<Session> {
        let mut tracer = self.client()?;
        let (reports, report_end) = tracer.actor.pipe()?;
        let list = tracer.actor.memory(2 * PAGE_SIZE as usize)?;
        let room = tracer.actor.memory(ROOM)?;
        Ok(Session { tracer, target: target.pid(), reports, report_end, list, room })
    }

    /// Starts a process that debugs the target.
    pub(crate) fn session(&self, target: &Client) -> Verdict<Session> {
        let mut session = self.tracer(target)?;
        session.enable(ExceptionMask::EMPTY)?.ok("ENABLE")?;
        Ok(session)
    }

    /// Starts a process that debugs the target and has seen its queues, so that they can be stopped.
    pub(crate) fn debugger(&self, target: &Client) -> Verdict<Session> {
        let mut session = self.session(target)?;
        session.see_queues()?;
        Ok(session)
    }
}

impl Session {
    /// Makes a call of the debugger about the target.
    pub(crate) fn trap<T: TrapArgs>(&mut self, args: T) -> Verdict<Reply<T>> {
        self.tracer.actor.trap(self.tracer.kfd, self.target, args)
    }

    /// Returns the arguments of ENABLE.
    pub(crate) fn enable_args(&self, exception_mask: ExceptionMask) -> Enable {
        let rinfo_size = RuntimeInfo::SIZE as u32;
        Enable { exception_mask, rinfo_ptr: self.list, rinfo_size, dbg_fd: self.report_end.cast_unsigned() }
    }

    pub(crate) fn enable(&mut self, exception_mask: ExceptionMask) -> Verdict<Reply<Enable>> {
        let args = self.enable_args(exception_mask);
        self.trap(args)
    }

    pub(crate) fn disable(&mut self) -> Verdict<Reply<Disable>> {
        self.trap(Disable {})
    }

    /// Returns what ENABLE told of the runtime.
    pub(crate) fn runtime_info(&mut self) -> Verdict<RuntimeInfo> {
        let at = self.list;
        self.tracer.actor.get(at)
    }

    /// Takes a snapshot that clears these exceptions.
    pub(crate) fn snapshot(&mut self, clear: ExceptionMask) -> Verdict<Vec<QueueSnapshotEntry>> {
        let entry = QueueSnapshotEntry::SIZE;
        let args = self.snapshot_with(clear, (ROOM / entry) as u32, entry as u32)?.ok("GET_QUEUE_SNAPSHOT")?;
        let bytes = self.room_bytes(args.num_queues as usize * entry)?;
        Ok(bytes.chunks_exact(entry).filter_map(QueueSnapshotEntry::decode).collect())
    }

    /// Asks for a snapshot of so many entries of such a size.
    pub(crate) fn snapshot_with(
        &mut self,
        exception_mask: ExceptionMask,
        num_queues: u32,
        entry_size: u32,
    ) -> Verdict<Reply<GetQueueSnapshot>> {
        self.trap(GetQueueSnapshot { exception_mask, snapshot_buf_ptr: self.room, num_queues, entry_size })
    }

    /// Returns where snapshots go.
    pub(crate) fn room(&self) -> u64 {
        self.room
    }

    /// Returns the start of what a snapshot wrote.
    pub(crate) fn room_bytes(&mut self, length: usize) -> Verdict<Vec<u8>> {
        let at = self.room;
        self.tracer.actor.read(at, length)
    }

    /// Fills the room for snapshots.
    pub(crate) fn fill_room(&mut self, byte: u8, length: usize) -> Verdict {
        let at = self.room;
        self.tracer.actor.write(at, vec![byte; length])
    }

    /// Takes the snapshot after which present queues can be stopped.
    pub(crate) fn see_queues(&mut self) -> Verdict {
        self.snapshot(ExceptionMask::QUEUE_NEW).map(drop)
    }

    /// Stops queues with the default grace period.
    pub(crate) fn suspend(&mut self, queues: &[u32]) -> Verdict<Listed> {
        self.suspend_with(queues, GRACE_PERIOD_DEFAULT, ExceptionMask::EMPTY)
    }

    /// Stops queues.
    pub(crate) fn suspend_with(
        &mut self,
        queues: &[u32],
        grace_period: u32,
        exception_mask: ExceptionMask,
    ) -> Verdict<Listed> {
        let queue_array_ptr = self.put_list(queues)?;
        let num_queues = queues.len() as u32;
        let reply = self.trap(SuspendQueues { exception_mask, queue_array_ptr, num_queues, grace_period })?;
        self.listed(reply.result, queues.len())
    }

    /// Requires that all of these queues are stopped by the call.
    pub(crate) fn stop(&mut self, queues: &[u32]) -> Verdict {
        let listed = self.suspend(queues)?;
        if listed.result != queues.len() as i64 || listed.entries != queues {
            return broken(format_args!("SUSPEND_QUEUES of {queues:?}: {listed:x?}"));
        }
        Ok(())
    }

    /// Lets queues go on.
    pub(crate) fn resume(&mut self, queues: &[u32]) -> Verdict<Listed> {
        let queue_array_ptr = self.put_list(queues)?;
        let reply = self.trap(ResumeQueues { queue_array_ptr, num_queues: queues.len() as u32, pad: 0 })?;
        self.listed(reply.result, queues.len())
    }

    /// Lets all queues go on.
    pub(crate) fn resume_all(&mut self) -> Verdict<i64> {
        Ok(self.trap(ResumeQueues::default())?.result)
    }

    /// Tells the runtime of the target that the debugger has taken note.
    pub(crate) fn answer_runtime(&mut self) -> Verdict<Reply<SendRuntimeEvent>> {
        self.trap(SendRuntimeEvent { exception_mask: ExceptionMask::PROCESS_RUNTIME, gpu_id: 0, queue_id: 0 })
    }

    /// Asks for an exception and clears these.
    pub(crate) fn query(&mut self, clear: ExceptionMask) -> Verdict<Reply<QueryDebugEvent>> {
        self.trap(QueryDebugEvent { exception_mask: clear, gpu_id: 0, queue_id: 0 })
    }

    /// Returns how many reports the driver sent since the last time.
    pub(crate) fn reports(&mut self) -> Verdict<usize> {
        let fd = self.reports;
        self.tracer.actor.drain(fd)
    }

    /// Stops tracing; the session stays.
    pub(crate) fn detach(&mut self) -> Verdict {
        self.tracer.actor.done(&Request::Detach { pid: self.target })
    }

    /// Returns where lists are put.
    pub(crate) fn list(&self) -> u64 {
        self.list
    }

    fn put_list(&mut self, queues: &[u32]) -> Verdict<u64> {
        let bytes = queues.iter().flat_map(encode::<u32>).collect();
        self.tracer.actor.write(self.list, bytes)?;
        Ok(self.list)
    }

    fn listed(&mut self, result: i64, count: usize) -> Verdict<Listed> {
        let bytes = self.tracer.actor.read(self.list, count * 4)?;
        let entries = bytes.chunks_exact(4).filter_map(u32::decode).collect();
        Ok(Listed { result, entries })
    }
}
