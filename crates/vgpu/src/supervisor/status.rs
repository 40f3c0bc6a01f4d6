//! What the supervisor says about its gpu.

use std::sync::atomic::Ordering;

use super::{Device, Supervisor};
use crate::points;
use crate::protocol::{PointStatus, Status};

impl Supervisor {
    /// How the gpu is now.
    pub(super) fn status(&self, device: &Device) -> Status {
        let mut status = device.driver().status();
        status.name = device.setup.name.as_ref().map(ToString::to_string);
        for (gpu, hws) in status.gpus.iter_mut().zip(&device.schedulers) {
            gpu.over_subscribed = hws.is_oversubscribed();
            gpu.resets = hws.resets();
            gpu.cycles = hws.tallies().by_cause().iter().map(|(cause, cycles)| (cause.name(), *cycles)).collect();
        }
        status.options = device.setup.options.clone();
        status.supervisor = std::process::id();
        status.holders = self.holders.load(Ordering::Relaxed);
        let point = |(point, counts): (points::Point, points::Counts)| {
            (point.name().to_owned(), PointStatus { passed: counts.passed, hits: counts.hits })
        };
        status.points = points::counts().into_iter().map(point).collect();
        status
    }
}
