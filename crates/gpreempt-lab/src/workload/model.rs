//! Networks as the kernels of one request: `models.toml` beside the built-in workloads, and `[models.NAME]` in a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml_source::{Document, Field, Key, Table};

use super::Kernel;
use crate::input::{self, Builtin, InputError};

/// Most kernels of a request: more than any network has, and few enough to keep in memory.
const MAX_KERNELS: u32 = 100_000;

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

/// Keys of `[models.NAME]`.
const MODEL_KEYS: &[&str] = &["about", "repeat", "kernels"];

/// Keys of one entry of `kernels`: a number of equal kernels.
const GROUP_KEYS: &[&str] = &["count", "workgroups", "duration_us", "waves", "vgprs", "lds_kib", "collective"];

/// Returns the networks that ship with the laboratory.
///
/// # Errors
/// Only if the file that was compiled in has a mistake.
pub fn builtin() -> Result<Models, InputError> {
    let source = BUILTIN.source();
    let document = Document::parse(&source)?;
    let models = document.root(&["models"]).required("models").map().map_or_else(Models::new, |map| read_models(&map));
    Ok(document.finish(models)?)
}

/// Reads a table of models.
pub(super) fn read_models(map: &Table<'_>) -> Models {
    let model = |(key, field): (Key<'_>, Field<'_, '_>)| {
        let table = field.table(MODEL_KEYS)?;
        let repeat = table.field("repeat").whole(1..=MAX_KERNELS).unwrap_or(1);
        let kernels = read_groups(table.required("kernels"), repeat);
        let about = table.field("about").text("a sentence in quotes").unwrap_or_default().to_string();
        Some((key.name.to_string(), Model { about, kernels }))
    };
    map.entries().filter_map(model).collect()
}

/// Reads a list of groups and writes it out, `repeat` times.
pub(super) fn read_groups(field: Field<'_, '_>, repeat: u32) -> Arc<[Kernel]> {
    let tables = field.tables(MAX_KERNELS as usize, GROUP_KEYS);
    let groups: Vec<(u32, Kernel)> = tables.iter().map(read_group).collect();
    let once: u64 = groups.iter().map(|(count, _)| u64::from(*count)).sum();
    let total = once.saturating_mul(u64::from(repeat));
    if total > u64::from(MAX_KERNELS) || field.is_empty_list() {
        field.report(format_args!("adds up to {total} kernels in a request, expected 1 to {MAX_KERNELS}"));
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

fn read_group(table: &Table<'_>) -> (u32, Kernel) {
    let count = table.field("count").whole(1..=MAX_KERNELS).unwrap_or(1);
    let lds_kib = table.field("lds_kib").number(0.0..=160.0, " KiB").unwrap_or(0.0);
    let kernel = Kernel {
        workgroups: table.required("workgroups").whole(1..=1 << 24).unwrap_or(1),
        duration: input::time(table.required("duration_us"), 0.1..=1e8),
        waves: table.field("waves").whole(1..=16).unwrap_or(4),
        vgprs: table.field("vgprs").whole(1..=512).unwrap_or(64),
        lds: (lds_kib * 1024.0) as u32,
        collective: table.field("collective").flag().unwrap_or(false),
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
