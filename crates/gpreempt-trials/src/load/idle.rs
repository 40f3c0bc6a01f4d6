//! A program that has queues and no work.

use std::io::{Read, Write};

use anyhow::{Context, Result};
use kfd_runtime::{Queue, Runtime};

use super::LoadIdle;
use super::{Line, say};

pub(super) fn run(options: &LoadIdle, out: &mut impl Write) -> Result<()> {
    let runtime = Runtime::open()?;
    let device = runtime.device(0)?;
    let _queues: Vec<Queue> = (0..options.queues).map(|_| Queue::new(device)).collect::<Result<_, _>>()?;
    say(&Line::Ready { groups: 0 }, out)?;
    std::io::stdin().read_to_end(&mut Vec::new()).context("cannot wait for the end of the standard input")?;
    Ok(())
}
