//! The command itself must not be hooked.

use object::{Object, ObjectSymbol};

fn defined(path: &std::path::Path) -> Vec<String> {
    let bytes = std::fs::read(path).expect("can be read");
    let file = object::File::parse(&*bytes).expect("an executable");
    let symbols = file.symbols().chain(file.dynamic_symbols());
    symbols.filter(|s| s.is_definition() && s.is_global()).filter_map(|s| s.name().ok().map(str::to_owned)).collect()
}

#[test]
fn the_executable_defines_none_of_the_hooked_symbols() {
    let executable = super::executable();
    let library = executable.parent().expect("a directory").join("deps/libvgpu_preload.so");
    let bytes = std::fs::read(&library).expect("the library is built with the command");
    let file = object::File::parse(&*bytes).expect("a library");
    let hooked: Vec<String> = file
        .dynamic_symbols()
        .filter(ObjectSymbol::is_definition)
        .filter_map(|s| s.name().ok().map(str::to_owned))
        .collect();
    for expected in ["open64", "ioctl", "readdir64", "statx", "readlink", "fopen", "access"] {
        assert!(hooked.iter().any(|name| name == expected), "{expected} is not hooked by {library:?}");
    }
    let own = defined(&executable);
    assert!(!own.is_empty(), "the executable has symbols to look at");
    let both: Vec<&String> = hooked.iter().filter(|name| own.contains(name)).collect();
    assert!(both.is_empty(), "defined by the executable, too: {both:?}");
}
