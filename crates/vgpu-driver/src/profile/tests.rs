use super::*;

fn builtin(name: &str) -> Profile {
    Profile::load(name).unwrap()
}

#[test]
fn every_builtin_profile_is_valid_and_named_as_it_is_called() {
    for name in Profile::builtin_names() {
        let profile = builtin(name);
        assert_eq!(profile.name, name);
        assert!(profile.save_area().is_some());
    }
}

#[test]
fn the_real_geometries_have_the_known_save_areas() {
    for (name, cus, ctl_stack, cwsr) in [
        ("mi300x", 304, 12288, 23_203_840),
        ("mi300x-cpx", 38, 12288, 23_203_840),
        // Both numbers are those a real MI308X has in its queue descriptors.
        ("mi308x", 80, 0x2000, 0x00ba_6000),
        ("mi210", 104, 36864, 63_508_480),
    ] {
        let size = builtin(name).with_cus(cus).unwrap().save_area().unwrap();
        assert_eq!((size.ctl_stack, size.cwsr), (ctl_stack, cwsr), "{name}");
    }
}

#[test]
fn compute_units_must_spread_over_the_xccs() {
    let error = builtin("mi300x").with_cus(20).unwrap_err().to_string();
    assert_eq!(error, "mi300x: cus: 20 compute units do not spread evenly over 8 XCCs; use a multiple of 8");
    assert!(builtin("mi300x").with_cus(0).is_err());
    assert!(builtin("mi300x").with_cus(8 * 129).unwrap_err().to_string().contains("at most 1024"));
    assert_eq!(builtin("mi300x").with_cus(24).unwrap().cus_per_xcc(), 3);
}

#[test]
fn no_more_engines_are_shown_than_have_a_compute_unit() {
    assert_eq!(builtin("mi300x").engines_per_xcc(), 2);
    assert_eq!(builtin("mi300x").with_cus(304).unwrap().engines_per_xcc(), 4);
}

#[test]
fn errors_name_file_key_and_remedy() {
    let text = Profile::builtin_text("mi300x").unwrap();
    let unknown = Profile::parse("my.toml", &format!("{text}\ncolour = 3\n")).unwrap_err().to_string();
    assert!(unknown.contains("my.toml") && unknown.contains("colour") && unknown.contains("built-in"), "{unknown}");
    let missing = Profile::parse("my.toml", &text.replace("xcc = 8\n", "")).unwrap_err().to_string();
    assert!(missing.contains("xcc"), "{missing}");
    let range = Profile::parse("my.toml", &text.replace("gpus = 1", "gpus = 9")).unwrap_err().to_string();
    assert!(
        range.starts_with("my.toml:9:8: gpus: found 9, expected a whole number from 1 to 8\n  9 | gpus = 9\n"),
        "{range}"
    );
    let geometry = Profile::parse("my.toml", &text.replace("cus = 16", "cus = 20")).unwrap_err().to_string();
    assert!(geometry.starts_with("my.toml:12:7: cus: 20 compute units do not spread evenly over 8 XCCs"), "{geometry}");
    let name = Profile::load("mi999").unwrap_err().to_string();
    assert!(name.contains("mi999") && name.contains("mi300x-cpx"), "{name}");
    assert!(matches!(Profile::load("/nonexistent/profile.toml"), Err(ProfileError::Unreadable { .. })));
}

#[test]
fn a_profile_names_the_kind_of_its_read_index() {
    let text = Profile::builtin_text("mi300x").unwrap();
    assert_eq!(builtin("mi300x").read_index, ReadIndexKind::Retire);
    for (name, kind) in ReadIndexKind::NAMES {
        assert_eq!((kind.name(), name.parse()), (name, Ok(kind)));
        let profile = Profile::parse("my.toml", &format!("{text}\nread_index = \"{name}\"\n")).unwrap();
        assert_eq!(profile.read_index, kind);
        assert_eq!(serde_json::to_value(kind).unwrap(), name, "programs that share a gpu read it as profiles do");
    }
    let flag = "later".parse::<ReadIndexKind>().unwrap_err().to_string();
    assert!(ReadIndexKind::NAMES.iter().all(|(name, _)| flag.contains(name)), "{flag}");
    let unknown = Profile::parse("my.toml", &format!("{text}\nread_index = \"later\"\n")).unwrap_err().to_string();
    assert!(unknown.contains("read_index") && unknown.contains("fetch-rewound-at-save"), "{unknown}");
}

#[test]
fn a_profile_can_come_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("small.toml");
    let text = Profile::builtin_text("mi210").unwrap().replace("cus = 8", "cus = 1");
    std::fs::write(&path, text).unwrap();
    let profile = Profile::load(path.to_str().unwrap()).unwrap();
    assert_eq!((profile.cus, profile.engines_per_xcc(), profile.gfx), (1, 1, Gfx::Gfx90a));
}

#[test]
fn gpus_are_told_apart_by_every_number() {
    let mut profile = builtin("mi300x-cpx");
    profile.gpus = MAX_GPUS;
    let gpus = profile.gpu_list();
    assert_eq!(gpus, profile.gpu_list());
    for (at, gpu) in gpus.iter().enumerate() {
        assert!(gpu.gpu_id != 0 && gpu.gpu_id <= 0xFFFF);
        for other in &gpus[at + 1..] {
            assert_ne!(gpu.gpu_id, other.gpu_id);
            assert_ne!(gpu.render_minor, other.render_minor);
            assert_ne!(gpu.location_id, other.location_id);
            assert_ne!(gpu.unique_id, other.unique_id);
        }
        assert_eq!(gpu.location_id, 0xC100 | at as u32);
    }
    assert!(gpus.iter().all(|gpu| profile.pci_address(gpu) == "0000:c1:00.0"));
}

#[test]
fn the_clock_counter_runs_at_its_frequency() {
    let profile = builtin("mi300x");
    assert_eq!(profile.gpu_clock(1_000_000_000), 100_000_000);
    assert_eq!(profile.gpu_clock(u64::MAX), u64::MAX / 10);
}
