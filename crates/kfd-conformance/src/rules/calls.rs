//! The dispatcher of `/dev/kfd`, and who may use a descriptor.

use kfd_abi::Abi;
use kfd_abi::event::{CreateEventArgs, EventType, SetEventArgs};
use kfd_abi::ioctl::{self, Direction, Request as IoctlRequest};
use kfd_abi::process::{GetVersionArgs, VERSION_MAJOR, VERSION_MINOR_DEBUGGER};

use crate::actor::encode;
use crate::bench::{Bench, eventually};
use crate::rule::driver_rules;
use crate::verdict::{Verdict, broken, equal, outcome, require};
use crate::wire::{Answer, Request};

// tidy: table
driver_rules! { Driver:
    "call-version" version, "kfd_chardev.c: kfd_ioctl_get_version",
        "GET_VERSION answers major version 1 and at least minor version 13, the first with debug sessions.";
    "call-unknown-number" unknown_number, "kfd_chardev.c: kfd_ioctl",
        "A number outside of the table is answered with ENOTTY, so that an addition can be probed for.";
    "call-retired-number" retired_number, "kfd_chardev.c: kfd_ioctl_dbg_register and the three after it",
        "The numbers 0x0D to 0x10 of the retired debugger interface are answered with EPERM.";
    "call-null-argument" null_argument, "kfd_chardev.c: kfd_ioctl",
        "Every number of the table from 0x01 to 0x26 is there: a null argument is answered with EFAULT, not ENOTTY.";
    "call-direction-ignored" direction_ignored, "kfd_chardev.c: kfd_ioctl",
        "The dispatcher looks at the number only: the direction in a request may be another.";
    "call-short-argument" short_argument, "kfd_chardev.c: kfd_ioctl",
        "An argument that is shorter than the driver's is filled up with zeros: CREATE_QUEUE takes 88 bytes.";
    "call-foreign-descriptor" foreign_descriptor, "kfd_chardev.c: kfd_ioctl",
        "A forked child that uses its parent's descriptor is answered with EBADF.";
    "call-child-opens" child_opens, "kfd_chardev.c: kfd_open",
        "A forked child may open the driver for itself.";
    "open-twice" open_twice, "kfd_process.c: kfd_create_process",
        "Two openings of one process are the same to the driver: an event of one can be set through the other.";
    "open-listed" open_listed, "kfd_process.c: kfd_create_process, create_process",
        "A process that opened the driver is listed in sysfs, with or without queues.";
    "close-keeps-queues" close_keeps_queues, "kfd_chardev.c: kfd_release",
        "Closing the descriptor leaves the queues of the process as they are.";
    "exit-unlisted" exit_unlisted, "kfd_process.c: kfd_process_wq_release",
        "A process that ended disappears from sysfs.";
    "exec-ends-queues" exec_ends_queues, "kfd_process.c: kfd_process_notifier_release_internal",
        "exec ends the queues of a process: they belong to the memory that goes.";
}

fn version(bench: &Bench<'_>) -> Verdict {
    let args = bench.client()?.call(GetVersionArgs::default())?.ok("GET_VERSION")?;
    equal("major version", args.major_version, VERSION_MAJOR)?;
    require(args.minor_version >= VERSION_MINOR_DEBUGGER, format_args!("minor version {}", args.minor_version))
}

fn unknown_number(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    for nr in [0x00, 0x60, 0x7F, 0xFF] {
        let IoctlRequest(request) = IoctlRequest::new(Direction::ReadWrite, IoctlRequest::KFD, nr, 64);
        let (result, _) = client.actor.raw(client.kfd, request, Some(vec![0; 64]))?;
        equal(&format!("call {nr:#x}"), outcome(result).as_str(), "ENOTTY")?;
    }
    Ok(())
}

fn retired_number(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    for command in ioctl::COMMANDS.iter().filter(|command| command.is_retired()) {
        let IoctlRequest(request) = command.request();
        let (result, _) = client.actor.raw(client.kfd, request, Some(vec![0; command.size.into()]))?;
        equal(command.name, outcome(result).as_str(), "EPERM")?;
    }
    Ok(())
}

fn null_argument(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    for command in ioctl::COMMANDS {
        let IoctlRequest(request) = command.request();
        let (result, _) = client.actor.raw(client.kfd, request, None)?;
        let seen = outcome(result);
        // Checkpoints need a capability, which is checked before.
        let refused = *command == ioctl::CRIU_OP && seen == "EACCES";
        require(seen == "EFAULT" || refused, format_args!("{}: {seen} instead of EFAULT", command.name))?;
    }
    Ok(())
}

fn direction_ignored(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let command = ioctl::GET_VERSION;
    for direction in [Direction::None, Direction::Write, Direction::ReadWrite] {
        let IoctlRequest(request) = IoctlRequest::new(direction, IoctlRequest::KFD, command.nr, command.size);
        let (result, bytes) = client.actor.raw(client.kfd, request, Some(vec![0xEE; command.size.into()]))?;
        let version = GetVersionArgs::decode(&bytes).map(|args| args.major_version);
        equal(&format!("GET_VERSION as {direction:?}"), (result, version), (0, Some(VERSION_MAJOR)))?;
    }
    Ok(())
}

fn short_argument(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let (args, _) = client.queue_args()?;
    let mut bytes = encode(&args);
    bytes.truncate(88);
    let command = ioctl::CREATE_QUEUE;
    let IoctlRequest(request) = IoctlRequest::new(Direction::ReadWrite, IoctlRequest::KFD, command.nr, 88);
    let (result, _) = client.actor.raw(client.kfd, request, Some(bytes))?;
    equal("CREATE_QUEUE with 88 bytes", outcome(result).as_str(), "success (0)")
}

fn foreign_descriptor(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let fd = client.kfd;
    client.actor.call_forked(fd, GetVersionArgs::default())?.fails("GET_VERSION of a child", libc::EBADF)?;
    client.call(GetVersionArgs::default())?.ok("GET_VERSION of the parent")?;
    Ok(())
}

fn child_opens(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let open = Request::Open { path: kfd::KFD.to_owned() };
    match client.actor.ask(&Request::Forked(Box::new(open)))? {
        Answer::Number(_) => Ok(()),
        other => broken(format_args!("open of {} by a child: {other:?}", kfd::KFD)),
    }
}

fn open_twice(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let second = client.actor.open(kfd::KFD)?;
    let event = CreateEventArgs { event_type: EventType::SIGNAL, ..CreateEventArgs::default() };
    let event_id = client.call(event)?.ok("CREATE_EVENT")?.event_id;
    client.actor.call(second, SetEventArgs { event_id, pad: 0 })?.ok("SET_EVENT through the second descriptor")?;
    Ok(())
}

fn is_listed(pid: u32) -> Verdict<bool> {
    Ok(std::path::Path::new(&format!("{}/{pid}", kfd_abi::sysfs::PROCESS_DIR)).exists())
}

fn open_listed(bench: &Bench<'_>) -> Verdict {
    let mut actor = bench.process()?;
    let pid = actor.pid();
    require(!is_listed(pid)?, "a process that did not open the driver is listed")?;
    actor.open(kfd::KFD)?;
    require(is_listed(pid)?, "a process that opened the driver is not listed")
}

fn close_keeps_queues(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let queue = client.queue()?;
    let fd = client.kfd;
    client.actor.done(&Request::Close { fd })?;
    std::thread::sleep(crate::bench::WATCH);
    let path = format!("{}/{}/queues/{}", kfd_abi::sysfs::PROCESS_DIR, client.pid(), queue.id);
    require(std::path::Path::new(&path).exists(), format_args!("{path} is gone"))?;
    client.kfd = client.actor.open(kfd::KFD)?;
    client.destroy(queue.id)?.ok("DESTROY_QUEUE through another opening")?;
    Ok(())
}

fn exit_unlisted(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    client.queue()?;
    let pid = client.pid();
    require(is_listed(pid)?, "the process is not listed")?;
    client.actor.kill();
    eventually("the process is no longer listed", || Ok(!is_listed(pid)?))
}

fn exec_ends_queues(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let queue = client.queue()?;
    client.actor.done(&Request::Exec)?;
    let path = format!("{}/{}/queues/{}", kfd_abi::sysfs::PROCESS_DIR, client.pid(), queue.id);
    eventually("the queue is gone", || Ok(!std::path::Path::new(&path).exists()))?;
    client.kfd = client.actor.open(kfd::KFD)?;
    client.enable_runtime()?.ok("RUNTIME_ENABLE of the new program")?;
    Ok(())
}
