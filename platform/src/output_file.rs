//! Opens a file for the user's output: exactly the named regular file, within a time limit.
//!
//! Logs and histories may lie in folders in which other users can create names, such as `/tmp`. A link, a pipe or a
//! file that another user has put there must not be written to, and must not block this process.

use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, Error};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

const STACK: usize = 64 << 10;

/// Opens a file to append to, and makes its folder; both are for this user only if they are new. Waits no longer than
/// `patience` for the file system.
///
/// # Errors
/// If the system refuses or does not answer in time, and if there is something else than a regular file that belongs to this
/// user and has no other name.
pub fn open(path: &Path, patience: Duration) -> io::Result<File> {
    let (tell, opened) = sync_channel(1);
    let path = path.to_owned();
    std::thread::Builder::new().name("open".into()).stack_size(STACK).spawn(move || {
        let _ = tell.send(open_now(&path));
    })?;
    opened.recv_timeout(patience).unwrap_or_else(|_| Err(Error::other("its file system does not answer")))
}

/// The same, with all the time that the file system takes.
///
/// # Errors
/// As [`open`].
pub fn open_now(path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = File::options().append(true).create(true).mode(0o600).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => Error::other("it is a symbolic link"),
        Some(libc::ENXIO) => Error::other("it is no regular file"),
        _ => error,
    })?;
    match objection(&file.metadata()?, nix::unistd::geteuid().as_raw()) {
        Some(objection) => Err(Error::other(objection)),
        None => Ok(file),
    }
}

/// Why a file is not written to by this user.
fn objection(file: &Metadata, user: u32) -> Option<String> {
    if !file.is_file() {
        return Some("it is no regular file".into());
    }
    if file.uid() != user {
        return Some(format!("it belongs to user {}", file.uid()));
    }
    (file.nlink() > 1).then(|| "it has another name, too (a hard link)".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    const PATIENCE: Duration = Duration::from_secs(10);

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("ringwatch-output-{name}-{}", std::process::id()));
            std::fs::create_dir(&folder).unwrap();
            Self(folder)
        }

        fn refusal(&self, name: &str) -> String {
            open(&self.0.join(name), PATIENCE).unwrap_err().to_string()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_new_file_and_its_folder_are_for_the_user_only_and_an_own_file_is_appended_to() {
        let folder = Folder::new("new");
        let path = folder.0.join("a/b/log");
        for text in ["one", "two"] {
            open(&path, PATIENCE).unwrap().write_all(text.as_bytes()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "onetwo");
        for (path, mode) in [(path.clone(), 0o600), (folder.0.join("a"), 0o700)] {
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, mode);
        }
    }

    #[test]
    fn what_others_may_have_put_there_is_not_written_to() {
        let folder = Folder::new("traps");
        let at = |name: &str| folder.0.join(name);
        std::fs::write(at("own"), "").unwrap();
        symlink(at("own"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        std::fs::hard_link(at("own"), at("second")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::from_bits_truncate(0o666)).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        assert!(folder.refusal("link").contains("symbolic link"));
        assert!(folder.refusal("dangling").contains("symbolic link"));
        assert!(!at("nothing").exists());
        assert!(folder.refusal("second").contains("hard link"));
        assert!(folder.refusal("pipe").contains("no regular file"));
        // A pipe with a reader can be opened, but is a pipe all the same.
        let _reader = File::options().read(true).write(true).open(at("pipe")).unwrap();
        assert!(folder.refusal("pipe").contains("no regular file"));
        open(&at("folder"), PATIENCE).unwrap_err();
        std::fs::write(at("theirs"), "").unwrap();
        if chown(at("theirs"), Some(65534), None).is_ok() {
            assert!(folder.refusal("theirs").contains("belongs to user 65534"));
            assert_eq!(std::fs::read(at("theirs")).unwrap(), b"");
        } else {
            eprintln!("skipped: only root can give a file to another user");
        }
    }
}
