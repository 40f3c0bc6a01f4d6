//! Goals and whether they are met.

use serde::Serialize;

/// One goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Goal {
    /// What is measured, with its unit.
    pub(super) name: &'static str,
    /// Under which circumstances.
    pub(super) case: String,
    pub(super) at_least: Option<f64>,
    pub(super) at_most: Option<f64>,
    /// `None` if it could not be measured.
    pub(super) measured: Option<f64>,
    /// `None` if the machine was busy with other work.
    pub(super) met: Option<bool>,
    /// What else was measured that says why it is missed.
    pub(super) reason: Option<String>,
}

impl Goal {
    /// A goal with these bounds. `reason` is kept only if it is missed.
    pub(super) fn new(
        name: &'static str,
        case: impl Into<String>,
        bounds: (Option<f64>, Option<f64>),
        measured: Option<f64>,
        reason: impl FnOnce() -> String,
    ) -> Goal {
        let (at_least, at_most) = bounds;
        let holds =
            |value: f64| at_least.is_none_or(|least| value >= least) && at_most.is_none_or(|most| value <= most);
        let met = measured.is_some_and(holds);
        let reason = match measured {
            Some(_) if met => None,
            Some(_) => Some(reason()),
            None => Some("could not be measured here".to_owned()),
        };
        Goal { name, case: case.into(), at_least, at_most, measured, met: Some(met), reason }
    }

    /// Takes the judgement back: what was measured beside other work says nothing.
    pub(super) fn withhold(&mut self) {
        (self.met, self.reason) = (None, None);
    }

    /// A goal not to exceed something.
    pub(super) fn at_most(
        name: &'static str,
        case: impl Into<String>,
        most: f64,
        measured: Option<f64>,
        reason: impl FnOnce() -> String,
    ) -> Goal {
        Goal::new(name, case, (None, Some(most)), measured, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_within_its_bounds_and_only_a_miss_has_a_reason() {
        let goal = |measured| Goal::new("ratio", "-", (Some(0.98), Some(1.02)), measured, || "why".to_owned());
        for (measured, met, reason) in [
            (Some(0.98), true, None),
            (Some(1.02), true, None),
            (Some(0.97), false, Some("why")),
            (Some(1.03), false, Some("why")),
            (Some(f64::NAN), false, Some("why")),
            (None, false, Some("could not be measured here")),
        ] {
            let goal = goal(measured);
            let mut goal = goal;
            assert_eq!((goal.met, goal.reason.as_deref()), (Some(met), reason), "{measured:?}");
            goal.withhold();
            assert_eq!((goal.met, goal.reason, goal.measured.is_some()), (None, None, measured.is_some()));
        }
    }
}
