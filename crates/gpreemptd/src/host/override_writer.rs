//! The file of overrides, and the thread that writes it: a disk may take long, and the deciding thread must not wait
//! for it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use gpreempt_proto::Answer;

use crate::inbox::Responder;

use super::overrides::Overrides;

pub(super) const FILE: &str = "by-hand.json";

/// Reads the file in `directory`, and says where it is; `None` if other users may write there. A file that cannot be
/// understood is renamed, so that nothing is lost.
pub(super) fn read(directory: &Path) -> Option<(PathBuf, Overrides)> {
    if !is_ours(directory) {
        tracing::warn!(
            "users other than this one may write to {}: a restart forgets what was set by hand. Give the daemon a socket \
             in a directory of its own",
            directory.display()
        );
        return None;
    }
    let path = directory.join(FILE);
    let overrides = match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
            let aside = path.with_extension("json.bad");
            tracing::warn!("{} cannot be understood ({error}); it is kept as {}", path.display(), aside.display());
            // If it cannot be renamed, the next change overwrites it.
            let _ = fs::rename(&path, aside);
            Overrides::default()
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Overrides::default(),
        Err(error) => {
            tracing::warn!("cannot read {}: {error}; levels and holds set by hand are forgotten", path.display());
            Overrides::default()
        }
    };
    Some((path, overrides))
}

/// Returns whether only this user and root can create files there.
fn is_ours(directory: &Path) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    fs::metadata(directory).is_ok_and(|about| (about.uid() == own || about.uid() == 0) && about.mode() & 0o022 == 0)
}

/// The writing thread. Of several versions that wait only the last is written. Dropping it writes what waits.
#[derive(Debug)]
pub(super) struct OverrideWriter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

/// What the thread has to do. Bounded: one version, and the answers of requests that clients wait for.
#[derive(Debug, Default)]
struct Waiting {
    version: Option<Overrides>,
    answers: Vec<(Responder, Answer)>,
    end: bool,
}

impl Shared {
    /// Locked only to exchange values, never during a write.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OverrideWriter {
    /// Starts the thread; `None` if the system has none left.
    pub(super) fn start(path: PathBuf) -> Option<OverrideWriter> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let work = move || serve(&path, &theirs);
        match thread::Builder::new().name("overrides".into()).spawn(work) {
            Ok(thread) => Some(OverrideWriter { shared, thread: Some(thread) }),
            Err(error) => {
                tracing::warn!("cannot start a thread: {error}; a restart forgets what is set by hand");
                None
            }
        }
    }

    /// Has a version written.
    pub(super) fn write(&self, version: Overrides) {
        self.shared.lock().version = Some(version);
        self.shared.wake.notify_one();
    }

    /// Sends an answer after everything that waits now is written.
    pub(super) fn answer(&self, responder: Responder, answer: Answer) {
        self.shared.lock().answers.push((responder, answer));
        self.shared.wake.notify_one();
    }
}

impl Drop for OverrideWriter {
    fn drop(&mut self) {
        self.shared.lock().end = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of it ends the process.
            let _ = thread.join();
        }
    }
}

fn serve(path: &Path, shared: &Shared) {
    let mut failed = false;
    loop {
        let idle = |waiting: &mut Waiting| waiting.version.is_none() && waiting.answers.is_empty() && !waiting.end;
        let mut waiting = shared.wake.wait_while(shared.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        let Waiting { version, answers, end } = std::mem::take(&mut *waiting);
        drop(waiting);
        if let Some(version) = version {
            let written = write(path, &version);
            if let Err(error) = &written
                && !failed
            {
                tracing::warn!("cannot write {}: {error}; a restart forgets what was set by hand", path.display());
            }
            failed = written.is_err();
        }
        answers.into_iter().for_each(|(responder, answer)| responder.send(answer));
        if end {
            return;
        }
    }
}

/// Writes the file as a whole. Only this user may read it: names of jobs are not public.
fn write(path: &Path, overrides: &Overrides) -> io::Result<()> {
    let aside = path.with_extension("json.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
    file.write_all(&serde_json::to_vec_pretty(overrides)?)?;
    fs::rename(aside, path)
}
