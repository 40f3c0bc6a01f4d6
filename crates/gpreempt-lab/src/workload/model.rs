//! Networks as the kernels of one request: `models.toml` beside the built-in workloads, and `[models.NAME]` in a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::Kernel;
use crate::input::{Builtin, Checker, InputError, TomlDocument};

/// Most kernels of a request: more than any network has, and few enough to keep in memory.
const MOST_KERNELS: u32 = 100_000;

const BUILTIN: Builtin = Builtin { name: "models.toml", text: include_str!("../../models.toml") };

/// A network.
#[derive(Clone, Debug)]
pub struct Model {
    /// One sentence for listings.
    pub about: String,
    /// The kernels of one request, in order.
    pub kernels: Arc<[Kernel]>,
}

/// Networks by name.
pub type Models = BTreeMap<String, Model>;

/// `[models.NAME]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawModel {
    #[serde(default)]
    about: String,
    repeat: Option<f64>,
    kernels: Vec<RawGroup>,
}

/// One entry of `kernels`: a number of equal kernels.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGroup {
    count: Option<f64>,
    workgroups: f64,
    duration_us: f64,
    waves: Option<f64>,
    vgprs: Option<f64>,
    lds_kib: Option<f64>,
    #[serde(default)]
    collective: bool,
}

/// The whole of `models.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawModels {
    models: BTreeMap<String, RawModel>,
}

/// The networks that ship with the laboratory.
///
/// # Errors
/// Only when the file it was built from has a fault.
pub fn builtin() -> Result<Models, InputError> {
    let source = BUILTIN.text();
    let document = TomlDocument::new(&source);
    let raw: RawModels = document.read()?;
    let mut checker = Checker::new(&document);
    let models = read_models(&mut checker, &raw.models);
    checker.finish(models)
}

/// Checks a table of models.
pub(super) fn read_models(checker: &mut Checker<'_>, raw: &BTreeMap<String, RawModel>) -> Models {
    let mut models = Models::new();
    for (name, raw) in raw {
        let key = format!("models.{name}");
        let repeat = raw.repeat.unwrap_or(1.0);
        let repeat = checker.whole(&format!("{key}.repeat"), repeat, 1..=MOST_KERNELS);
        let kernels = read_groups(checker, &format!("{key}.kernels"), &raw.kernels, repeat);
        let about = raw.about.clone();
        models.insert(name.clone(), Model { about, kernels });
    }
    models
}

/// Checks a list of groups and writes it out, `repeat` times.
pub(super) fn read_groups(checker: &mut Checker<'_>, key: &str, groups: &[RawGroup], repeat: u32) -> Arc<[Kernel]> {
    let groups: Vec<(u32, Kernel)> = groups
        .iter()
        .enumerate()
        .map(|(index, group)| read_group(checker, &format!("{key}[{index}]"), group))
        .collect();
    let once: u64 = groups.iter().map(|(count, _)| u64::from(*count)).sum();
    let total = once.saturating_mul(u64::from(repeat));
    if total == 0 || total > u64::from(MOST_KERNELS) {
        checker.note(key, format!("adds up to {total} kernels in a request, expected 1 to {MOST_KERNELS}"));
        return Arc::new([]);
    }
    let mut kernels = Vec::new();
    for _ in 0..repeat {
        for (count, kernel) in &groups {
            kernels.extend(std::iter::repeat_n(kernel.clone(), *count as usize));
        }
    }
    kernels.into()
}

fn read_group(checker: &mut Checker<'_>, key: &str, group: &RawGroup) -> (u32, Kernel) {
    let field = |name: &str| format!("{key}.{name}");
    let count = checker.whole(&field("count"), group.count.unwrap_or(1.0), 1..=MOST_KERNELS);
    let lds_kib = checker.number(&field("lds_kib"), group.lds_kib.unwrap_or(0.0), 0.0..=160.0, " KiB");
    let kernel = Kernel {
        workgroups: checker.whole(&field("workgroups"), group.workgroups, 1..=1 << 24),
        duration: checker.micros(&field("duration_us"), group.duration_us, 0.1..=1e8),
        waves: checker.whole(&field("waves"), group.waves.unwrap_or(4.0), 1..=16),
        vgprs: checker.whole(&field("vgprs"), group.vgprs.unwrap_or(64.0), 1..=512),
        lds: (lds_kib * 1024.0) as u32,
        collective: group.collective,
    };
    (count, kernel)
}

#[cfg(test)]
mod tests {
    use gpreempt_core::Nanos;

    use super::super::alone;
    use super::*;

    #[test]
    fn the_built_in_networks_take_as_long_alone_as_their_description_says() {
        let models = builtin().expect("models.toml is valid");
        let millis = |name: &str| alone(&models[name].kernels).0 as f64 / 1e6;
        for (name, low, high) in [
            ("vgg19", 2.4, 2.8),
            ("resnet152", 5.5, 6.5),
            ("densenet201", 6.5, 7.5),
            ("inceptionv3", 3.0, 3.6),
            ("distilbert", 1.2, 1.6),
        ] {
            let found = millis(name);
            assert!((low..=high).contains(&found), "{name} takes {found} ms");
        }
    }

    #[test]
    fn inference_at_batch_one_does_not_fill_an_mi300x_and_training_does() {
        let models = builtin().expect("models.toml is valid");
        // 304 compute units, 512 KiB of vector registers each, 256 bytes per register and wave.
        let slots = |kernel: &Kernel| 304 * ((512 * 1024) / (kernel.waves * kernel.vgprs * 256)).min(32 / kernel.waves);
        for (name, model) in &models {
            let fills = model.kernels.iter().any(|kernel| kernel.workgroups >= slots(kernel));
            assert_eq!(fills, name.starts_with("training"), "{name}");
        }
    }

    #[test]
    fn a_repeated_list_of_groups_is_written_out_in_order() {
        let models = builtin().expect("models.toml is valid");
        let kernels = &models["distilbert"].kernels;
        assert_eq!(kernels.len(), 72);
        assert_eq!(kernels[0], kernels[12]);
        assert_eq!(kernels[4].duration, Nanos::from_micros(30));
    }
}
