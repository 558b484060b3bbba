//! The parameter file of PMIx: a value set in it, and nothing else changed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the file that holds for all users of a node, below PMIx's folder for settings.
const OF_ALL: &str = "pmix-mca-params.conf";
/// The file of one user, below the home folder. PMIx reads it before that of all users, and it wins.
const OF_ONE: &str = ".pmix/mca-params.conf";
/// How often others may change the file while it is written, before that is given up.
const ATTEMPTS: u32 = 5;

/// The file that holds for jobs that this user starts on this node: root's is that of all users.
///
/// # Errors
/// A sentence if it cannot be found out.
pub fn locate() -> Result<PathBuf, String> {
    if !nix::unistd::getuid().is_root() {
        let home = std::env::var_os("HOME").ok_or("HOME is not set, so your parameter file cannot be found")?;
        return Ok(Path::new(&home).join(OF_ONE));
    }
    let output = Command::new("pmix_info").args(["--path", "sysconfdir"]).output().map_err(|error| {
        format!(
            "pmix_info, which knows where the parameter file is, cannot be started ({error}): name the file with --file"
        )
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let folder = folder_in(&text).ok_or("pmix_info does not say where the parameter file is: name it with --file")?;
    Ok(Path::new(folder).join(OF_ALL))
}

/// The folder for settings in the answer of `pmix_info`; `None` if it names none, or none that is the same from
/// everywhere.
#[must_use]
pub fn folder_in(answer: &str) -> Option<&str> {
    let folder = answer.lines().find_map(|line| line.trim_start().strip_prefix("Sysconfdir:"))?.trim();
    folder.starts_with('/').then_some(folder)
}

/// Sets parameters in a file: wholly or not at all, and without touching its other lines, its owner or its rights.
///
/// # Errors
/// If it cannot be read or replaced; then it is as it was.
pub fn store(path: &Path, values: &[(&str, String)]) -> io::Result<()> {
    // Behind a link is the file that is meant.
    let path = match fs::canonicalize(path) {
        Ok(path) => path,
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => path.to_owned(),
        Err(error) => return Err(error),
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    for _ in 0..ATTEMPTS {
        let before = read(&path)?;
        let new = path.with_extension(format!("new.{}", std::process::id()));
        let written = write(&new, &path, &set(&before, values));
        let unchanged = written.and_then(|()| Ok(read(&path)? == before));
        match unchanged {
            Ok(true) => {
                fs::rename(&new, &path).inspect_err(|_| drop(fs::remove_file(&new)))?;
                return File::open(folder)?.sync_all();
            }
            // Another process has changed it meanwhile; that change must not be lost.
            Ok(false) => fs::remove_file(&new)?,
            Err(error) => {
                let _ = fs::remove_file(&new);
                return Err(error);
            }
        }
    }
    Err(io::Error::other("somebody else goes on changing it"))
}

/// Whether [`store`] will have the right to write beside a parameter file, or to make its folders.
///
/// # Errors
/// Without that right.
pub fn may_change(path: &Path) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    Ok(nix::unistd::access(folder, nix::unistd::AccessFlags::W_OK)?)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

/// Writes a new file with the owner and the rights of an old one.
fn write(new: &Path, old: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(new)?;
    if let Ok(old) = fs::metadata(old) {
        if (old.uid(), old.gid()) != (file.metadata()?.uid(), file.metadata()?.gid()) {
            std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
    }
    file.write_all(content)?;
    file.sync_all()
}

/// The content with these values: in place of every line that sets one, else at the end.
#[must_use]
pub fn set(content: &[u8], values: &[(&str, String)]) -> Vec<u8> {
    let mut new = Vec::with_capacity(content.len() + 128);
    let mut missing: Vec<_> = values.iter().collect();
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        let Some((name, value)) = values.iter().find(|(name, _)| sets(line, name)) else {
            new.extend_from_slice(line);
            continue;
        };
        missing.retain(|(known, _)| known != name);
        new.extend_from_slice(format!("{name} = {value}").as_bytes());
        let end = line.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
        new.extend_from_slice(&line[end..]);
    }
    for (name, value) in missing {
        if new.last().is_some_and(|byte| *byte != b'\n') {
            new.push(b'\n');
        }
        new.extend_from_slice(format!("{name} = {value}\n").as_bytes());
    }
    new
}

/// Whether a line gives a value to this parameter: `name = value`. Comments do not.
fn sets(line: &[u8], name: &str) -> bool {
    let rest = line.trim_ascii_start().strip_prefix(name.as_bytes());
    rest.is_some_and(|rest| rest.trim_ascii_start().first() == Some(&b'='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    fn times() -> [(&'static str, String); 2] {
        [("psensor_ringwatch_period", "12ms".into()), ("psensor_ringwatch_timeout", "120ms".into())]
    }

    fn changed(content: &str) -> String {
        String::from_utf8(set(content.as_bytes(), &times())).unwrap()
    }

    /// An empty folder that is gone at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("parameter-file-{}-{number}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<_> =
                fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn pmix_info_says_where_the_file_is() {
        assert_eq!(folder_in("              Sysconfdir: /etc/pmix\n"), Some("/etc/pmix"));
        assert_eq!(folder_in("Prefix: /usr\n Sysconfdir: /etc/my pmix \r\n"), Some("/etc/my pmix"));
        for answer in ["", "Sysconfdir:\n/etc\n", "Sysconfdir: share\n", "no Sysconfdir: /etc\n"] {
            assert_eq!(folder_in(answer), None, "{answer}");
        }
    }

    #[test]
    fn values_are_added_to_what_is_there() {
        let both = "psensor_ringwatch_period = 12ms\npsensor_ringwatch_timeout = 120ms\n";
        assert_eq!(changed(""), both);
        assert_eq!(changed("# mine\ngds = hash\n"), format!("# mine\ngds = hash\n{both}"));
        assert_eq!(changed("gds = hash"), format!("gds = hash\n{both}"));
    }

    #[test]
    fn values_that_are_there_are_replaced_where_they_are() {
        assert_eq!(
            changed("a = 1\n  psensor_ringwatch_timeout=10\n# psensor_ringwatch_period = 1s\nb = 2\n"),
            "a = 1\npsensor_ringwatch_timeout = 120ms\n# psensor_ringwatch_period = 1s\nb = 2\npsensor_ringwatch_period = 12ms\n"
        );
        // Which of two lines wins is PMIx's business.
        assert_eq!(
            changed("psensor_ringwatch_period = 1s\r\npsensor_ringwatch_period = 2s\npsensor_ringwatch_timeout = 9"),
            "psensor_ringwatch_period = 12ms\r\npsensor_ringwatch_period = 12ms\npsensor_ringwatch_timeout = 120ms"
        );
    }

    #[test]
    fn other_names_and_bytes_that_are_no_text_stay() {
        let other = "psensor_ringwatch_periods = 3\npsensor_ringwatch_period_x = 4\npsensor_ringwatch_period\n";
        assert!(changed(other).starts_with(other));
        let bytes = b"name = \xff\xfe\0\npsensor_ringwatch_period = 1s\n";
        assert!(set(bytes, &times()).starts_with(b"name = \xff\xfe\0\npsensor_ringwatch_period = 12ms\n"));
    }

    #[test]
    fn a_change_made_twice_is_made_once() {
        let once = changed("a = 1");
        assert_eq!(changed(&once), once);
    }

    #[test]
    fn the_file_keeps_its_rights_and_the_link_to_it() {
        let folder = Folder::new();
        let (file, link) = (folder.0.join("file.conf"), folder.0.join("link.conf"));
        fs::write(&file, "a = 1\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        store(&link, &times()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), changed("a = 1\n"));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o640);
        assert!(link.is_symlink());
        assert_eq!(folder.names(), ["file.conf", "link.conf"]);
    }

    #[test]
    fn a_file_that_is_not_there_is_made_with_its_folder() {
        let folder = Folder::new();
        let file = folder.0.join(".pmix/mca-params.conf");
        store(&file, &times()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), changed(""));
    }

    #[test]
    fn a_file_that_cannot_be_replaced_stays_as_it_was() {
        let folder = Folder::new();
        fs::create_dir(folder.0.join("file.conf")).unwrap();
        assert!(store(&folder.0.join("file.conf"), &times()).is_err());
        std::os::unix::fs::symlink("nowhere/at-all.conf", folder.0.join("dangling.conf")).unwrap();
        assert!(store(&folder.0.join("dangling.conf"), &times()).is_err());
        // A file that a crashed process has left belongs to another process.
        let left = folder.0.join(format!("taken.new.{}", std::process::id()));
        fs::write(&left, "x").unwrap();
        fs::write(folder.0.join("taken.conf"), "a = 1\n").unwrap();
        assert!(store(&folder.0.join("taken.conf"), &times()).is_err());
        assert_eq!(fs::read_to_string(folder.0.join("taken.conf")).unwrap(), "a = 1\n");
    }

    #[test]
    fn whoever_reads_meanwhile_sees_the_file_whole() {
        let folder = Folder::new();
        let file = folder.0.join("file.conf");
        let kept = "other = value\n".repeat(5000);
        fs::write(&file, &kept).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0;
                while !done.load(Ordering::Relaxed) {
                    assert!(fs::read_to_string(&file).unwrap().starts_with(&kept), "all other lines are there");
                    seen += 1;
                }
                seen
            });
            for value in 0..50 {
                store(&file, &[("psensor_ringwatch_period", format!("{value}ms"))]).unwrap();
            }
            done.store(true, Ordering::Relaxed);
            assert!(reader.join().unwrap() > 0);
        });
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{kept}psensor_ringwatch_period = 49ms\n"));
    }
}
