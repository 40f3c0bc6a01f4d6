//! The path of the daemon's socket, for command, daemon and library alike.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

/// The environment variable that names another socket.
pub const SOCKET_VARIABLE: &str = "GPREEMPT_SOCKET";

/// Directory of a daemon that serves the whole machine.
const SYSTEM_DIR: &str = "/run/gpreempt";
const SOCKET: &str = "control.sock";

/// Returns the path of the socket: `$GPREEMPT_SOCKET`; else that of the machine's daemon, for root and wherever it
/// exists; else that of the user's own daemon below `$XDG_RUNTIME_DIR`.
#[must_use]
pub fn socket_path() -> PathBuf {
    let system = Path::new(SYSTEM_DIR).join(SOCKET);
    let uid = Uid::effective();
    choose(
        std::env::var_os(SOCKET_VARIABLE),
        uid.is_root() || system.exists(),
        std::env::var_os("XDG_RUNTIME_DIR"),
        uid.as_raw(),
    )
}

fn choose(named: Option<OsString>, system: bool, user_dir: Option<OsString>, uid: u32) -> PathBuf {
    // A variable that is set to nothing is as good as unset, as shells have it.
    let given = |value: &OsString| !value.is_empty();
    if let Some(path) = named.filter(given) {
        return path.into();
    }
    let directory = match user_dir.filter(given) {
        _ if system => SYSTEM_DIR.into(),
        Some(directory) => Path::new(&directory).join("gpreempt"),
        // Where it would be, had the session set the variable.
        None => PathBuf::from(format!("/run/user/{uid}/gpreempt")),
    };
    directory.join(SOCKET)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(named: &str, system: bool, user_dir: Option<&str>) -> String {
        let path = choose(Some(named.into()), system, user_dir.map(Into::into), 1000);
        path.to_string_lossy().into_owned()
    }

    #[test]
    fn a_named_socket_goes_before_the_machines_and_that_before_the_users() {
        assert_eq!(chosen("/tmp/a.sock", true, Some("/run/user/7")), "/tmp/a.sock");
        assert_eq!(chosen("", true, Some("/run/user/7")), "/run/gpreempt/control.sock");
        assert_eq!(chosen("", false, Some("/run/user/7")), "/run/user/7/gpreempt/control.sock");
        assert_eq!(chosen("", false, Some("")), "/run/user/1000/gpreempt/control.sock");
        assert_eq!(chosen("", false, None), "/run/user/1000/gpreempt/control.sock");
    }
}
