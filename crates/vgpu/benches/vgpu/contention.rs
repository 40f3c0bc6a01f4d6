//! Several processes on one virtual GPU: stopping them, cycles of the runlist, doorbells, sharing.

use std::path::Path;

use serde_json::Value;

use crate::processes::{executable, number, under};
use crate::report::{Aim, Report};

const STOP: &str = "request to last wave stopped";
const CYCLE: &str = "a cycle of the runlist";
const DOORBELLS: &str = "doorbells with other processes on the gpu";
const IDLE: &str = "idle processes";
const TOGETHER: &str = "two busy processes";

/// A name for what could not be measured, the task of the client, and how its result is told.
type Part = (&'static str, &'static str, fn(&mut Report, &Value));

const PARTS: [Part; 5] = [
    (STOP, "stop", stop),
    (CYCLE, "cycles", cycles),
    (DOORBELLS, "doorbells", doorbells),
    (IDLE, "idle-cost", idle),
    (TOGETHER, "together", together),
];

pub(crate) fn run(report: &mut Report) {
    report.section("contention (several processes on one virtual gpu)");
    match executable() {
        Ok(gpreempt) => PARTS.iter().for_each(|part| measure(report, &gpreempt, part)),
        Err(why) => PARTS.iter().for_each(|(name, ..)| report.skip(name, &why)),
    }
}

fn measure(report: &mut Report, gpreempt: &Path, (name, task, tell): &Part) {
    match under(gpreempt, task) {
        Ok(found) => tell(report, &found),
        Err(why) => report.skip(name, &why),
    }
}

fn stop(report: &mut Report, found: &Value) {
    report.row(&format!("{STOP}: waves each time, average"), number(&found["waves"]), "");
    for percent in ["p50", "p99"] {
        let of = |what: &str| number(&found[what][percent]);
        let samples = &found["stop"]["samples"];
        report.row(&format!("{STOP}, {percent} of {samples}"), of("stop"), "us");
        report.row(&format!("the call that stops, {percent}"), of("call"), "us");
        report.row(&format!("futex there and back between processes, {percent}"), of("futex"), "us");
        report.row(&format!("{STOP} against the futex, {percent}"), of("stop") / of("futex"), "x");
    }
}

fn cycles(report: &mut Report, found: &Value) {
    for crowd in found["crowds"].as_array().into_iter().flatten() {
        let who = match crowd["idle"].as_u64() {
            Some(idle @ 1..) => format!("{idle} idle"),
            _ => "one busy".to_owned(),
        };
        let of = |what: &str| number(&crowd["cost"][what]);
        report.row(&format!("{CYCLE}, {who}: real work, average"), of("whole") - of("modelled"), "us");
        report.row(&format!("{CYCLE}, {who}: added by the model, average"), of("modelled"), "us");
        report.row(&format!("{CYCLE}, {who}: the call, p50"), number(&crowd["cost"]["call"]["p50"]), "us");
    }
}

fn doorbells(report: &mut Report, found: &Value) {
    let of = |who: &str| number(&found[who]["submission"]);
    report.row("packet, write index and doorbell, alone", of("alone"), "ns");
    let name = "packet, write index and doorbell, 16 processes against 1";
    report.aimed(name, of("crowded") / of("alone"), "x", Aim::AtMost(1.05));
    for (who, key) in [("alone", "alone"), ("16 processes", "crowded")] {
        for percent in ["p50", "p99"] {
            report.row(
                &format!("doorbell to first wave, {who}, {percent}"),
                number(&found[key]["wave"][percent]),
                "us",
            );
        }
    }
}

fn idle(report: &mut Report, found: &Value) {
    let [supervisor, executors] = ["supervisor", "executors"].map(|what| number(&found[what]) * 100.0);
    let who = format!("{} {IDLE}", found["clients"]);
    report.row(&format!("{who}: cycles of the runlist in a second"), number(&found["cycles"]), "");
    report.row(&format!("{who}: the supervisor's share of a core"), supervisor, "%");
    report.row(&format!("{who}: theirs and their executors'"), executors, "%");
    report.aimed(&format!("{who}: together"), supervisor + executors, "%", Aim::AtMost(8.0));
}

fn together(report: &mut Report, found: &Value) {
    let [alone, large, small] = ["alone", "large", "small"].map(|what| number(&found[what]));
    report.row(&format!("{TOGETHER}, 96 and 32 wave slots: work done (3 is fair)"), large / small, "x");
    report.row(&format!("{TOGETHER}: both together against one alone"), (large + small) / alone * 100.0, "%");
}
