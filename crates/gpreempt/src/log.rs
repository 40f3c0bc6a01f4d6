//! `gpreempt log`: past events.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use gpreempt_proto::{Answer, Event, Request, VERSION};
use linux_host::clock;
use serde::Serialize;

use crate::cli::Log;
use crate::{client, event, output};

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    /// Whether older events were left out or dropped.
    truncated: bool,
    events: &'a [Event],
}

pub(crate) fn run(options: &Log, out: &mut impl Write) -> Result<()> {
    let before_now = |time: Duration| clock::wall_ms().saturating_sub(time.as_millis().try_into().unwrap_or(u64::MAX));
    let request = Request::Log {
        since_ms: options.since.map(before_now),
        target: options.selector.target(),
        limit: usize::try_from(options.limit).ok(),
    };
    match client::connect(&options.report.reach)?.call(request)? {
        Answer::Log { events, truncated } if options.report.json => {
            output::json(&Document { schema: VERSION, truncated, events: &events }, out)
        }
        Answer::Log { events, truncated } => write(&events, truncated, options.limit as usize, out),
        other => client::strange(&other),
    }
}

fn write(events: &[Event], truncated: bool, limit: usize, out: &mut impl Write) -> Result<()> {
    if events.len() >= limit {
        writeln!(out, "The newest {limit} events; --limit shows more, --since, --pid and --job fewer.")?;
    } else if truncated {
        writeln!(out, "Older events were dropped; raise `log_events` in the configuration to keep more.")?;
    }
    if events.is_empty() {
        writeln!(out, "No events.")?;
    }
    for event in events {
        writeln!(out, "{}", event::line(event))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gpreempt_proto::EventKind;

    use super::*;

    fn written(events: &[Event], truncated: bool, limit: usize) -> String {
        let mut text = Vec::new();
        write(events, truncated, limit, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn gone(at_ms: u64) -> Event {
        let gpu = Some("0000:c1:00.0".to_owned());
        Event { at_ms, kind: EventKind::Gone, gpu, pid: Some(7), job: Some("train".to_owned()), uid: None }
    }

    #[test]
    fn what_is_left_out_is_said_first() {
        assert_eq!(
            written(&[gone(1)], true, 10),
            "Older events were dropped; raise `log_events` in the configuration to keep more.\n\
             1970-01-01T00:00:00.001Z 0000:c1:00.0       7 train: gone\n"
        );
        assert!(written(&[gone(1)], true, 1).starts_with("The newest 1 events; --limit shows more"));
        assert_eq!(written(&[], false, 10), "No events.\n");
    }
}
