//! An apt of our own, which downloads packages and installs nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::lock::Origin;
use super::{files_in, run};
use crate::run::command;

/// Signs the archive; comes with the package debian-archive-keyring.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Where dpkg notes what is installed on this machine.
const DPKG_STATUS: &str = "/var/lib/dpkg/status";

/// Where an apt of our own looks for packages, and what it takes for installed.
#[derive(Clone, Copy)]
pub(crate) enum Sources<'s> {
    /// Releases of Debian, on a machine where nothing is installed: what comes is complete, down to the C library.
    Suites {
        suites: &'s [&'s str],
        /// Packages, as apt patterns, that are taken from the last suite even if another one has them, too.
        pinned: &'s str,
    },
    /// What apt on this machine is configured for. Packages that are installed are not downloaded as dependencies.
    System,
}

/// An apt that has its own lists, cache and state.
pub(crate) struct PrivateApt {
    options: Vec<String>,
    archives: PathBuf,
}

/// What the signed indexes say of packages.
pub(crate) struct Index {
    /// The suite that has a version of a package.
    suites: BTreeMap<(String, String), String>,
    /// SHA-256 of a version of a package.
    hashes: BTreeMap<(String, String), String>,
}

impl PrivateApt {
    /// Downloads the indexes of the sources.
    pub(crate) fn new(work: &Path, sources: Sources<'_>) -> Result<PrivateApt> {
        for part in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(work.join(part)).with_context(|| format!("cannot make {part}"))?;
        }
        let mut options = vec![
            format!("Dir::State={}", work.join("state").display()),
            format!("Dir::Cache={}", work.join("cache").display()),
            "APT::Sandbox::User=root".to_string(),
            "APT::Architectures::=amd64".to_string(),
            "Acquire::Languages=none".to_string(),
        ];
        match sources {
            Sources::Suites { suites, pinned } => options.extend(configure(work, suites, pinned)?),
            Sources::System => options.push(format!("Dir::State::status={DPKG_STATUS}")),
        }
        let apt = PrivateApt { options, archives: work.join("cache/archives") };
        run(apt.command("apt-get").arg("update"))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut apt = command(program);
        apt.arg("-qq");
        for option in &self.options {
            apt.args(["-o", option]);
        }
        apt
    }

    /// Downloads packages with what they depend on, and `alone` without, and returns their files.
    ///
    /// Packages have the versions that are named as long as the archive has them, else the newest, which is said.
    pub(crate) fn download(&self, packages: &[(&str, &str)], alone: &[(&str, &str)]) -> Result<Vec<PathBuf>> {
        let names: Vec<&str> = packages.iter().chain(alone).map(|(name, _)| *name).collect();
        let index = self.index(&names)?;
        if let Err(error) = self.install(&index.choose(packages)) {
            // A named version may depend on one that has vanished.
            eprintln!("note: the named versions cannot be had together, taking the newest: {error:#}");
            self.install(&packages.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>())?;
        }
        self.download_alone(&index.choose(alone))?;
        let files = self.files();
        ensure!(files.len() >= names.len(), "only {} packages were downloaded", files.len());
        Ok(files)
    }

    /// Returns the files of all packages that were downloaded.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        files_in(&self.archives, "deb")
    }

    /// Downloads packages without what they depend on.
    pub(crate) fn download_alone(&self, words: &[String]) -> Result<()> {
        if words.is_empty() {
            return Ok(());
        }
        let download = || {
            let mut apt = self.command("apt-get");
            apt.current_dir(&self.archives).arg("download").args(words);
            apt
        };
        announce(&mut download())?;
        run(&mut download())
    }

    /// Downloads packages, even if they are installed, with what they depend on.
    pub(crate) fn install(&self, words: &[String]) -> Result<()> {
        let install = || {
            let mut apt = self.command("apt-get");
            apt.args(["install", "--reinstall", "--no-install-recommends", "-y"]).args(words);
            apt
        };
        announce(&mut install())?;
        run(install().arg("--download-only"))
    }

    /// Returns what the newest version of a package depends on, as the index writes it; `None` without the package.
    pub(crate) fn dependencies(&self, name: &str) -> Result<Option<String>> {
        let mut apt = self.command("apt-cache");
        let output = apt.args(["show", "--no-all-versions", name]).output().context("cannot start apt-cache")?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().find_map(|line| line.strip_prefix("Depends: ")).map(str::to_owned))
    }

    /// Returns the versions of a package that the archive has.
    pub(crate) fn versions(&self, name: &str) -> Result<Vec<String>> {
        let output = self.command("apt-cache").args(["madison", name]).output().context("cannot start apt-cache")?;
        ensure!(output.status.success(), "`apt-cache madison` ended with {}", output.status);
        let suites = parse_madison(&String::from_utf8_lossy(&output.stdout));
        Ok(suites.into_keys().map(|(_, version)| version).collect())
    }

    /// Asks what the indexes say of packages.
    pub(crate) fn index(&self, names: &[&str]) -> Result<Index> {
        let ask = |word: &str| {
            let output = self.command("apt-cache").arg(word).args(names).output().context("cannot start apt-cache")?;
            ensure!(
                output.status.success(),
                "`apt-cache {word}` ended with {}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            );
            anyhow::Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        Ok(Index { suites: parse_madison(&ask("madison")?), hashes: parse_hashes(&ask("show")?) })
    }
}

impl Index {
    /// Returns apt's words for packages: with the named version if the archive has it.
    fn choose(&self, packages: &[(&str, &str)]) -> Vec<String> {
        let has = |name: &str, version: &str| self.suites.contains_key(&(name.to_owned(), version.to_owned()));
        let word = |&(name, version): &(&str, &str)| {
            if has(name, version) {
                return format!("{name}={version}");
            }
            eprintln!(
                "note: the archive no longer has {name} {version}, taking the newest; the tests were written with it"
            );
            name.to_owned()
        };
        packages.iter().map(word).collect()
    }

    /// Says where a package comes from.
    pub(crate) fn origin(&self, name: &str, version: &str) -> Result<Origin> {
        let key = (name.to_owned(), version.to_owned());
        match (self.suites.get(&key), self.hashes.get(&key)) {
            (Some(suite), Some(hash)) => Ok(Origin { origin: suite.clone(), expected: Some(hash.clone()) }),
            _ => bail!("the index does not have {name} {version}"),
        }
    }
}

/// Says how much a command of apt is about to download.
fn announce(apt: &mut Command) -> Result<()> {
    let listed = apt.arg("--print-uris").output().context("cannot start apt-get")?;
    let (count, bytes) = count_addresses(&String::from_utf8_lossy(&listed.stdout));
    eprintln!("downloading {count} Debian packages, {} MB", bytes / 1_000_000);
    Ok(())
}

/// Counts packages and bytes in the output of `apt-get --print-uris`: address, file, size, hash.
fn count_addresses(text: &str) -> (usize, u64) {
    let sizes: Vec<u64> = text.lines().filter_map(|line| line.split(' ').nth(2)?.parse().ok()).collect();
    (sizes.len(), sizes.iter().sum())
}

/// Reads `name | version | address suite/component architecture Packages`. The first suite that has a version counts.
fn parse_madison(text: &str) -> BTreeMap<(String, String), String> {
    let mut suites = BTreeMap::new();
    for line in text.lines() {
        let mut columns = line.split('|').map(str::trim);
        let (Some(name), Some(version), Some(source)) = (columns.next(), columns.next(), columns.next()) else {
            continue;
        };
        if let Some((suite, _)) = source.split(' ').nth(1).and_then(|place| place.split_once('/')) {
            suites.entry((name.to_owned(), version.to_owned())).or_insert_with(|| suite.to_owned());
        }
    }
    suites
}

/// Reads the stanzas of an index.
fn parse_hashes(text: &str) -> BTreeMap<(String, String), String> {
    let field = |stanza: &str, name: &str| {
        stanza.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()))
    };
    let hash = |stanza: &str| Some(((field(stanza, "Package")?, field(stanza, "Version")?), field(stanza, "SHA256")?));
    text.split("\n\n").filter_map(hash).collect()
}

/// Writes apt's configuration for releases of Debian, and returns the options that name it.
fn configure(work: &Path, suites: &[&str], pinned: &str) -> Result<Vec<String>> {
    let status = work.join("status");
    fs::write(&status, "")?;
    let sources = work.join("sources.list");
    let archives = query_archives()?;
    let address = archive(&archives)?;
    let line = |suite: &&str| format!("deb [signed-by={KEYRING} arch=amd64] {address} {suite} main\n");
    fs::write(&sources, suites.iter().map(line).collect::<String>())?;
    let preferences = work.join("preferences");
    fs::write(&preferences, pin(suites, pinned))?;
    Ok(vec![
        format!("Dir::State::status={}", status.display()),
        format!("Dir::Etc::sourcelist={}", sources.display()),
        "Dir::Etc::sourceparts=-".to_string(),
        "Dir::Etc::preferencesparts=-".to_string(),
        format!("Dir::Etc::preferences={}", preferences.display()),
    ])
}

/// Returns apt's preferences: `pinned` packages come from the last suite.
fn pin(suites: &[&str], pinned: &str) -> String {
    match suites.last() {
        Some(suite) if !pinned.is_empty() => {
            format!("Package: {pinned}\nPin: release a={suite}\nPin-Priority: 900\n")
        }
        _ => String::new(),
    }
}

/// The archives that this machine's apt is configured for: an address and a label in each line.
fn query_archives() -> Result<String> {
    let output = command("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI) $(LABEL)", "Created-By: Packages"])
        .output()
        .context("cannot start apt-get")?;
    ensure!(output.status.success(), "`apt-get indextargets` ended with {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The address of the main Debian archive among them: by its label, or by its path while nothing has been downloaded
/// yet.
fn archive(lines: &str) -> Result<&str> {
    let archives = || lines.lines().filter_map(|line| line.split_once(' '));
    let labelled = archives().find(|(_, label)| *label == "Debian");
    let named = || archives().find(|(address, _)| address.trim_end_matches('/').ends_with("/debian"));
    match labelled.or_else(named) {
        Some((address, _)) => Ok(address),
        None => bail!("apt on this machine is configured for no Debian archive"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_pinned_to_the_last_suite() {
        assert_eq!(pin(&["trixie"], ""), "");
        let pinned = pin(&["sid", "experimental"], "libhsa* librocm*");
        assert!(
            pinned.starts_with("Package: libhsa* ") && pinned.contains("\nPin: release a=experimental\n"),
            "{pinned}"
        );
    }

    #[test]
    fn the_main_archive_is_found_by_label_or_by_path() {
        let lines = "http://a/debian-security/ Debian-Security\nhttp://b/mirror/ Debian\n";
        assert_eq!(archive(lines).expect("one"), "http://b/mirror/");
        let lines = "http://a/debian-security/ \nhttp://b/debian/ \n";
        assert_eq!(archive(lines).expect("one"), "http://b/debian/");
        assert!(archive("http://c/ubuntu/ Ubuntu\n").is_err());
        assert!(archive("").is_err());
    }

    #[test]
    fn a_version_that_vanished_is_replaced_by_the_newest() {
        let madison = "  rocminfo |    7.2.4-1 | http://a/debian sid/main amd64 Packages\n\
                       libx | 2~exp1 | http://a/debian experimental/main amd64 Packages\n";
        let show = "Package: rocminfo\nVersion: 7.2.4-1\nSHA256: aa\n\nPackage: libx\nVersion: 2~exp1\nSHA256: bb\n";
        let index = Index { suites: parse_madison(madison), hashes: parse_hashes(show) };
        assert_eq!(index.choose(&[("rocminfo", "7.2.4-1"), ("libx", "1")]), ["rocminfo=7.2.4-1", "libx"]);
        let origin = index.origin("libx", "2~exp1").expect("known");
        assert_eq!((origin.origin.as_str(), origin.expected.as_deref()), ("experimental", Some("bb")));
        assert!(index.origin("libx", "1").is_err());
    }

    #[test]
    fn the_size_of_a_download_is_added_up() {
        let text = "'http://a/x.deb' x_1_amd64.deb 1000000 MD5Sum:0\n'http://a/y.deb' y_1_all.deb 500 MD5Sum:1\n";
        assert_eq!(count_addresses(text), (2, 1_000_500));
        assert_eq!(count_addresses(""), (0, 0));
    }
}
