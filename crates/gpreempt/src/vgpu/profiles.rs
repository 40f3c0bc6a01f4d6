//! `gpreempt vgpu profiles`: which gpus there are.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;
use vgpu::profile::{Profile, ProfileError};

use crate::output;

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    marketing_name: &'a str,
    gfx: &'static str,
    gpus: u32,
    xcc: u32,
    cus: u32,
    vram_mib: u64,
}

pub(crate) fn run(name: Option<&str>, json: bool, out: &mut impl Write) -> Result<()> {
    if let Some(name) = name {
        let unknown = || ProfileError::Unknown { name: name.to_owned(), known: Profile::builtin_names().join(", ") };
        let text = Profile::builtin_text(name).ok_or_else(unknown)?;
        write!(out, "{text}")?;
        return Ok(());
    }
    let profiles = Profile::builtin_names().into_iter().map(Profile::load).collect::<Result<Vec<_>, _>>()?;
    let rows: Vec<Row<'_>> = profiles.iter().map(row).collect();
    if json {
        serde_json::to_writer_pretty(&mut *out, &serde_json::json!({ "schema": output::SCHEMA, "profiles": rows }))?;
        writeln!(out)?;
        return Ok(());
    }
    let mut table =
        output::listing(&["profile", "gpus", "XCCs", "CUs", "VRAM", "instructions", "stands for"], &[0, 5, 6]);
    for row in &rows {
        let numbers = [row.gpus.to_string(), row.xcc.to_string(), row.cus.to_string(), format!("{} MiB", row.vram_mib)];
        let mut cells = vec![comfy_table::Cell::new(row.name)];
        cells.extend(numbers.iter().map(output::number));
        cells.extend([row.gfx, row.marketing_name].map(comfy_table::Cell::new));
        table.add_row(cells);
    }
    writeln!(out, "{table}")?;
    writeln!(out, "CUs and VRAM are kept small; --cus N and a profile file change them.")?;
    Ok(())
}

fn row(profile: &Profile) -> Row<'_> {
    Row {
        name: &profile.name,
        marketing_name: &profile.marketing_name,
        gfx: profile.gfx.name(),
        gpus: profile.gpus,
        xcc: profile.xcc,
        cus: profile.cus,
        vram_mib: profile.vram_mib,
    }
}
