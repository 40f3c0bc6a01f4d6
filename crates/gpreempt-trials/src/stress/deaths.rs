//! Which kill points are armed when: each gets its turn, those with the fewest deaths first.

use std::time::{Duration, Instant};

use rand_pcg::Pcg64;
use vgpu::kill_points::{Page, Point};

use crate::random::below;

/// Pause after a death, so that some processes get their work done.
const PAUSE: Duration = Duration::from_millis(60);
/// The same before a point is armed where enough have died already.
const REST: Duration = Duration::from_millis(500);
/// After this time without a death a point is armed anew, for the first process that passes.
const IMPATIENCE: Duration = Duration::from_millis(1500);
/// Most processes that pass an armed point before one dies: deaths must not always hit the first call.
const PASSES: u64 = 24;
/// For the order of turns, an attempt without a death counts as so many deaths.
const VAIN: u64 = 2;
/// Points armed at the same time.
const AT_ONCE: usize = 5;

struct Armed {
    point: Point,
    since: Instant,
}

pub(super) struct Deaths {
    page: Page,
    /// How many have to die at each point.
    enough: u64,
    armed: Vec<Armed>,
    last: Instant,
    /// By point: attempts without a death.
    vain: Vec<u64>,
}

impl Deaths {
    pub(super) fn new(page: Page, enough: u64) -> Self {
        Deaths { page, enough, armed: Vec::new(), last: Instant::now(), vain: vec![0; Point::ALL.len()] }
    }

    pub(super) fn page(&self) -> &Page {
        &self.page
    }

    /// Notices deaths and arms other points.
    pub(super) fn go_on(&mut self, random: &mut Pcg64) {
        let now = Instant::now();
        let mut died = false;
        let (page, vain) = (&self.page, &mut self.vain);
        self.armed.retain(|armed| {
            if !page.is_armed(armed.point) {
                died = true;
                return false;
            }
            let waits = now - armed.since < IMPATIENCE;
            if !waits {
                page.disarm(armed.point);
                vain[armed.point as usize] += 1;
            }
            waits
        });
        if died {
            self.last = now;
        }
        if now - self.last < PAUSE || self.armed.len() >= AT_ONCE {
            return;
        }
        let rested = now - self.last >= REST;
        let free = |point: &&Point| {
            let needed = rested || self.page.counts(**point).hits < self.enough;
            needed && !self.armed.iter().any(|armed| armed.point == **point)
        };
        // Points that no process passes must not keep the others from their turn.
        let turn = |point: &&Point| self.page.counts(**point).hits + VAIN * self.vain[**point as usize];
        if let Some(&point) = Point::ALL.iter().filter(free).min_by_key(turn) {
            let passes = if self.vain[point as usize] > 0 { 1 } else { 1 + below(random, PASSES) };
            self.page.arm(point, None, passes as u32);
            self.armed.push(Armed { point, since: now });
        }
    }

    /// Disarms all points.
    pub(super) fn end(&mut self) {
        for point in Point::ALL {
            self.page.disarm(*point);
        }
        self.armed.clear();
    }

    /// Names the points at which too few processes died.
    pub(super) fn short(&self) -> Vec<&'static str> {
        let short = |point: &&Point| self.page.counts(**point).hits < self.enough;
        Point::ALL.iter().filter(short).map(|point| point.name()).collect()
    }
}
