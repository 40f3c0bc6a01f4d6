//! Traces as Chrome trace-event JSON, the format ui.perfetto.dev opens.
//!
//! Complete events ("X") of one thread must not overlap. What overlaps is a pair of asynchronous events ("b", "e"); see
//! [`List::push_span`].

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

/// One entry of `traceEvents`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ChromeEvent<'a> {
    /// Label.
    pub name: &'a str,
    /// Phase: the kind of the entry ("X", "b", "e", "i", "M").
    pub ph: &'a str,
    /// Process, from 1.
    pub pid: usize,
    /// Thread within the process.
    pub tid: usize,
    /// Category; pairs asynchronous events together with `id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cat: Option<&'a str>,
    /// Start, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ts: Option<f64>,
    /// Length, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dur: Option<f64>,
    /// Pairs the ends of an asynchronous event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Scope of an instant: its thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s: Option<&'a str>,
    /// Details that viewers show for a selected entry.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub args: Value,
}

/// A trace that is being written, one entry per line.
#[derive(Debug)]
pub struct List<W> {
    writer: W,
    empty: bool,
}

impl<W: Write> List<W> {
    /// Begins a trace; `about` describes its origin.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn begin(mut writer: W, about: &Value) -> io::Result<List<W>> {
        write!(writer, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":[")?;
        Ok(List { writer, empty: true })
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn end(mut self) -> io::Result<()> {
        writeln!(self.writer, "\n]}}")?;
        self.writer.flush()
    }

    /// Adds both ends of an asynchronous event: it may overlap others of its thread. Entries with the same category and
    /// `id` belong together.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn push_span(&mut self, event: &ChromeEvent<'_>) -> io::Result<()> {
        self.push(&ChromeEvent { ph: "b", dur: None, ..event.clone() })?;
        let end = event.ts.zip(event.dur).map(|(start, length)| start + length);
        self.push(&ChromeEvent { ph: "e", ts: end, dur: None, args: Value::Null, ..event.clone() })
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn push(&mut self, event: &ChromeEvent<'_>) -> io::Result<()> {
        let separator = if self.empty { "\n" } else { ",\n" };
        self.empty = false;
        self.writer.write_all(separator.as_bytes())?;
        serde_json::to_writer(&mut self.writer, event).map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trace_is_one_document_whatever_is_pushed() {
        let written = |spans: usize| -> Value {
            let mut bytes = Vec::new();
            let mut list = List::begin(&mut bytes, &json!({ "kind": "sample" })).expect("memory takes everything");
            for _ in 0..spans {
                let event = ChromeEvent { name: "a", ts: Some(1.0), dur: Some(2.0), ..ChromeEvent::default() };
                list.push_span(&event).expect("memory takes everything");
            }
            list.end().expect("memory takes everything");
            serde_json::from_slice(&bytes).expect("valid JSON")
        };
        assert_eq!(written(0)["otherData"]["kind"], "sample");
        let two = written(2);
        let events = two["traceEvents"].as_array().expect("a list of events");
        let ends: Vec<_> = events.iter().map(|event| (&event["ph"], &event["ts"])).collect();
        let (begin, end) = ((&json!("b"), &json!(1.0)), (&json!("e"), &json!(3.0)));
        assert_eq!(ends, [begin, end, begin, end]);
    }
}
