//! A process of another user. Needs root and `setpriv`; says so and passes where there is neither.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use gpreempt_proto::{GpuStatus, JobStatus, TenantStatus};

use super::*;

/// `nobody`, by custom.
const UID: u32 = 65534;

fn status() -> Status {
    let tenant = |pid, uid, job: &str| TenantStatus { pid, uid, job: Some(job.to_owned()), ..TenantStatus::default() };
    let job = |job: &str, level, pid| JobStatus { job: job.to_owned(), level, pids: vec![pid], ..JobStatus::default() };
    Status {
        gpus: vec![GpuStatus { holder: Some("theirs".to_owned()), ..GpuStatus::default() }],
        jobs: vec![job("theirs", 12, 20), job("mine", 3, 10)],
        tenants: vec![tenant(20, 1000, "theirs"), tenant(10, UID, "mine")],
        ..Status::default()
    }
}

#[test]
#[ignore = "a process of another test"]
fn child_of_another_user() {
    let Ok(path) = std::env::var("GPREEMPT_TEST_SOCKET") else {
        return eprintln!("skipped: another test runs it");
    };
    assert_eq!(nix::unistd::geteuid().as_raw(), UID);
    let connect = || Talk::new(UnixStream::connect(&path).unwrap());
    let mut client = connect();

    let seen = client.status();
    assert_eq!(seen.tenants.iter().map(|tenant| tenant.pid).collect::<Vec<_>>(), [10]);
    assert_eq!(seen.jobs.iter().map(|job| job.job.as_str()).collect::<Vec<_>>(), ["mine"]);
    assert_eq!(seen.gpus[0].holder.as_deref(), Some("(level 12)"));

    let log = Request::Log { since_ms: None, target: None, limit: None };
    let Answer::Log { events, .. } = client.call(log) else { panic!("no log") };
    assert_eq!(events.iter().map(|event| event.uid).collect::<Vec<_>>(), [Some(UID), None]);

    assert_eq!(client.refused(Request::Reload).kind, RefusalKind::Forbidden);
    let set = Request::Set { target: Target::Job("mine".to_owned()), level: 4 };
    let Answer::Done { note: Some(note) } = client.call(set) else { panic!("not set") };
    assert_eq!(note, format!("by {UID}"));

    let mut others: Vec<Talk> = (0..31).map(|_| connect()).collect();
    for other in &mut others {
        assert_eq!(other.call(Request::Notify { pid: None }), Answer::Done { note: None });
    }
    let refused = refusal(connect().hear().unwrap());
    assert!(refused.message.contains("has 32 connections"), "{refused}");
}

#[test]
fn another_user_sees_and_changes_only_what_is_theirs() {
    let root = nix::unistd::geteuid().is_root();
    if !root || Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: needs root and setpriv");
        return;
    }
    let scene = Scene::with(Box::new(|| Err(String::new())), |publisher, input| {
        match input {
            Input::Publish => publisher.publish(status(), Stats::default()),
            Input::Request(asked) => {
                let note = Some(format!("by {}", asked.uid));
                asked.answer.send(Answer::Done { note });
            }
            other => return Some(other),
        }
        None
    });
    scene.publisher.note(Event { uid: Some(1000), ..event(1, 20, "theirs") });
    scene.publisher.note(Event { uid: Some(UID), ..event(2, 10, "mine") });
    scene.publisher.note(Event { uid: None, ..event(3, 0, "general") });
    // The program may lie where another user cannot go.
    let place = scene.path.parent().unwrap();
    fs::set_permissions(place, Permissions::from_mode(0o755)).unwrap();
    let program = place.join("tests");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();

    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={UID}"), &format!("--regid={UID}"), "--clear-groups", "--"]).arg(&program);
    command.env("GPREEMPT_TEST_SOCKET", &scene.path).current_dir("/");
    let output = hostile::child(&mut command, "another_user::child_of_another_user").wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
