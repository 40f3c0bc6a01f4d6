//! Errors of the corpus.

use std::io;
use std::path::PathBuf;

/// A failure of the corpus.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// A file is missing.
    #[error("cannot read {}: {source}; the corpus's build.sh makes it", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },

    /// The manifest is not one.
    #[error("{} does not describe a corpus: {message}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },

    /// The host's side cannot be used.
    #[error("{} cannot be used: {message}", path.display())]
    Library {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },

    /// A result differs from the host's, or a kernel wrote where it must not.
    #[error("{0}")]
    Wrong(String),

    /// Which kernel failed.
    #[error("{name}, seed {seed}: {error}")]
    Kernel {
        /// Kernel and level.
        name: String,
        /// Seed of the input.
        seed: u64,
        /// What went wrong.
        error: Box<CorpusError>,
    },

    /// The gpu.
    #[error(transparent)]
    Gpu(#[from] kfd_runtime::Error),
}

impl CorpusError {
    /// Adds the name and seed of the kernel.
    pub(super) fn of(self, name: &str, seed: u64) -> CorpusError {
        CorpusError::Kernel { name: name.to_owned(), seed, error: Box::new(self) }
    }
}
