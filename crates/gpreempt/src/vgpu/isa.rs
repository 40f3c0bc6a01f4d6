//! `gpreempt vgpu isa`: what the interpreter executes.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use serde::Serialize;
use vgpu_isa::inst::Target;
use vgpu_isa::names;

use crate::output;

/// Opcodes of one encoding.
#[derive(Default, Serialize)]
struct Count {
    /// All there are.
    total: usize,
    /// Executed, with a passing test that names them.
    tested: usize,
    /// Mnemonics of the others.
    missing: Vec<&'static str>,
}

impl Count {
    fn add(&mut self, name: &'static str, tested: bool) {
        self.total += 1;
        if tested {
            self.tested += 1;
        } else {
            self.missing.push(name);
        }
    }

    fn share(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.tested as f64 / self.total as f64 }
    }
}

#[derive(Serialize)]
struct IsaReport {
    schema: u32,
    target: &'static str,
    /// Matrix instructions are counted apart.
    non_matrix: Count,
    matrix: Count,
    encodings: BTreeMap<&'static str, Count>,
    tested_share_non_matrix: f64,
    tested_share_matrix: f64,
}

pub(crate) fn run(target: Target, json: bool, out: &mut impl Write) -> Result<()> {
    let report = report(target);
    if json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut table = output::table(&["encoding", "opcodes", "tested"]);
    for (name, count) in &report.encodings {
        row(&mut table, name, count);
    }
    row(&mut table, "all but matrix", &report.non_matrix);
    row(&mut table, "matrix", &report.matrix);
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "{:.1} % of the non-matrix opcodes of {} and {:.1} % of its matrix opcodes are executed and have a test that \
         names them.",
        report.tested_share_non_matrix * 100.0,
        report.target,
        report.tested_share_matrix * 100.0
    )?;
    Ok(())
}

fn row(table: &mut comfy_table::Table, name: &str, count: &Count) {
    let numbers = [count.total, count.tested].map(|n| output::number(n.to_string()));
    table.add_row(std::iter::once(comfy_table::Cell::new(name)).chain(numbers));
}

fn report(target: Target) -> IsaReport {
    let mut report = IsaReport {
        schema: output::SCHEMA,
        target: target.name(),
        non_matrix: Count::default(),
        matrix: Count::default(),
        encodings: BTreeMap::new(),
        tested_share_non_matrix: 0.0,
        tested_share_matrix: 0.0,
    };
    for (encoding, opcode, name) in names::all(target) {
        let tested = names::is_tested(encoding, opcode, target);
        let matrix = name.starts_with("v_mfma") || name.starts_with("v_smfmac");
        let group = if matrix { &mut report.matrix } else { &mut report.non_matrix };
        group.add(name, tested);
        report.encodings.entry(encoding.name()).or_default().add(name, tested);
    }
    report.tested_share_non_matrix = report.non_matrix.share();
    report.tested_share_matrix = report.matrix.share();
    report
}
