//! `gpreempt watch`: events as they happen.

use std::io::Write;
use std::thread;

use anyhow::{Context, Result};
use gpreempt_proto::{Answer, Event, Stopper, VERSION};
use nix::sys::signal::{SigSet, Signal};
use serde::Serialize;

use crate::cli::Watch;
use crate::{client, event};

/// A line of JSON output.
#[derive(Serialize)]
#[serde(untagged)]
enum Line<'a> {
    Event {
        schema: u32,
        #[serde(flatten)]
        event: &'a Event,
    },
    Missed {
        schema: u32,
        missed_events: u64,
    },
}

pub(crate) fn run(options: &Watch, out: &mut impl Write) -> Result<()> {
    let events = client::connect(&options.reach)?.watch()?;
    stop_on_signal(events.stopper()?)?;
    for answer in events {
        match (answer?, options.json) {
            (Answer::Event(event), false) => writeln!(out, "{}", event::line(&event))?,
            (Answer::Missed { events }, false) => {
                writeln!(out, "{events} events missed: they came faster than they were read")?;
            }
            (Answer::Event(event), true) => write_json(&Line::Event { schema: VERSION, event: &event }, out)?,
            (Answer::Missed { events }, true) => {
                write_json(&Line::Missed { schema: VERSION, missed_events: events }, out)?;
            }
            (Answer::Done { .. } | Answer::Other, _) => {}
            (other, _) => return client::strange(&other),
        }
        out.flush()?;
    }
    Ok(())
}

fn write_json(line: &Line<'_>, out: &mut impl Write) -> Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    writeln!(out)?;
    Ok(())
}

/// Ends the watch on Ctrl-C without an error and without cutting a line off.
fn stop_on_signal(stopper: Stopper) -> Result<()> {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals.thread_block().context("cannot block signals")?;
    let wait = move || {
        if signals.wait().is_ok() {
            stopper.stop();
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).context("cannot start a thread")?;
    Ok(())
}
