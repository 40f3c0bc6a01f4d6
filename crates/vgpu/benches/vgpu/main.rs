//! How fast the virtual GPU is: `cargo bench -p vgpu [-- [--json] [SECTION...]]`.
//!
//! Everything is measured against something else in the same run, in short rounds by turns, because machines differ and
//! are shared. Nothing here fails for being slow: a row that has an aim says whether it was met.
//!
//! Sections: `instructions` (nanoseconds of single instructions; v_fma_f32 against an AVX2 loop), `kernels` (against
//! the same C compiled for the host, and where their time goes), `suite` (time of a wave instruction in every kernel of
//! the self-test), `save` (waves into the save area and back against memcpy), `processes` (what needs the whole virtual
//! GPU: doorbells, the executor beside busy programs, the hooks), `contention` (several processes on one: stopping,
//! cycles, sharing), `clients` (real programs; those that are not set up have a row that says so).

mod cases;
mod client;
mod clients;
mod contention;
mod crowd;
mod host;
mod instructions;
mod kernels;
mod machine;
mod measure;
mod processes;
mod report;
mod save;
mod shares;
mod sharing;
mod suite;

use std::process::ExitCode;

use report::Report;

const SECTIONS: [&str; 7] = ["instructions", "kernels", "suite", "save", "processes", "contention", "clients"];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench").peekable();
    if arguments.peek().is_some_and(|first| first == client::OPTION) {
        let task = arguments.nth(1);
        return client::main(task.as_deref(), &arguments.collect::<Vec<_>>());
    }
    let (mut json, mut sections) = (false, Vec::new());
    for argument in arguments {
        match argument.as_str() {
            "--json" => json = true,
            name if SECTIONS.contains(&name) => sections.push(argument),
            other => {
                eprintln!("unknown argument `{other}`; known are --json and {}", SECTIONS.join(", "));
                return ExitCode::from(2);
            }
        }
    }
    let wanted = |name: &str| sections.is_empty() || sections.iter().any(|section| section == name);
    let mut report = Report::new(!json);
    // The shares of a kernel's time are made from the costs of its instructions.
    let measures_costs = ["instructions", "kernels", "suite"].into_iter().any(wanted);
    let costs = if measures_costs { instructions::run(&mut report) } else { Vec::new() };
    if wanted("kernels") {
        kernels::run(&mut report, &costs);
    }
    if wanted("suite") {
        suite::run(&mut report, &costs);
    }
    if wanted("save") {
        save::run(&mut report);
    }
    if wanted("processes") {
        processes::run(&mut report);
    }
    if wanted("contention") {
        contention::run(&mut report);
    }
    if wanted("clients") {
        clients::run(&mut report);
    }
    if json {
        println!("{:#}", report.json());
    }
    ExitCode::SUCCESS
}
