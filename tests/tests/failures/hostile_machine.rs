//! What a node's operating system may do to `ringwatchd` without anybody being declared dead for it: step the wall
//! clock, take its program out of memory, and swap the memory of all others.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use system_tests::lab::{HOSTS, run};
use system_tests::programs::compile_library;
use system_tests::{Job, Lab, Running, in_lab};

const VICTIM: u32 = 3;
const HOUR: i64 = 3600;
/// The programs as they were built: on a disk, while what is installed for the tests is not.
const BUILT: &str = "/src/target/trixie/release";
/// As long as several timeouts of the jobs here.
const A_WHILE: Duration = Duration::from_millis(1500);

/// The wall clock of one host's processes, which can be stepped while they run.
struct WallClock {
    file: File,
    agent: PathBuf,
}

impl WallClock {
    /// Of this host, for jobs whose daemons `agent` starts.
    fn of(lab: &Lab, host: &str) -> Self {
        let folder = lab.folder();
        let (library, step, agent) = (compile_library("clocks", "gcc"), folder.join("step"), folder.join("agent"));
        fs::write(&step, 0_i64.to_ne_bytes()).expect("a new folder can be written");
        let text = format!(
            "#!/bin/bash\nfor word; do if [[ $word == {host} ]]; then\n\
             while [[ ${{1:-}} == -* ]]; do shift; done; shift\n\
             exec rw-ssh {host} 'export CLOCK_STEP={} LD_PRELOAD={};' \"$@\"; fi; done\nexec rw-ssh \"$@\"\n",
            step.display(),
            library.display()
        );
        fs::write(&agent, text).expect("a new folder can be written");
        fs::set_permissions(&agent, Permissions::from_mode(0o755)).expect("the file is ours");
        Self { file: File::options().write(true).open(step).expect("it was just made"), agent }
    }

    fn step(&self, seconds: i64) {
        self.file.write_all_at(&seconds.to_ne_bytes(), 0).expect("the file is ours");
    }
}

/// The last line of a host's daemon in the log: its year.
fn last_year(job: &Running<'_>, host: &str) -> i32 {
    let log = job.log(host);
    let line = log.lines().last().unwrap_or_else(|| panic!("{host} has a log"));
    line[..4].parse().unwrap_or_else(|_| panic!("a line of the log begins with the year: {line}"))
}

#[test]
fn a_node_whose_wall_clock_is_stepped_loses_nobody_and_notices_deaths_as_ever() {
    in_lab(|lab| {
        let clock = WallClock::of(lab, "h2");
        let mut job = Job::new().agent(&clock.agent).arguments(&["--op", "allreduce", "--hold"]).start(lab);
        job.wait_until_blocked();
        let watchers = HOSTS.map(|host| job.watcher(host).pid);
        for step in [HOUR, -HOUR, 1, -1, 365 * 24 * HOUR, -365 * 24 * HOUR] {
            clock.step(step);
            std::thread::sleep(A_WHILE / 3);
        }
        clock.step(10 * 365 * 24 * HOUR);
        std::thread::sleep(A_WHILE);
        if job.diaries().all("error").next().is_some() || HOSTS.map(|host| job.watcher(host).pid) != watchers {
            job.fail("nobody is declared dead, and no ringwatchd was started again");
        }
        let at = job.signal_rank(VICTIM, libc::SIGKILL);
        job.wait_until_repaired(&[0, 1, 2, 4, 5, 6, 7]);
        // The daemon of h2 has seen the step: it writes the date of its own wall clock.
        let (here, there) = (last_year(&job, "h2"), last_year(&job, "h3"));
        if here < there + 9 {
            job.fail(&format!("the wall clock of h2 is ten years ahead: {here} and {there}"));
        }
        job.end();
        job.finish().recovered(&[VICTIM]).told_within(&[VICTIM], at, Duration::from_millis(300));
    });
}

/// A number of a process's `status`, in kilobytes, while it lives.
fn kilobytes(pid: i32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// How often a process waited for a page from the disk.
fn waits_for_disk(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
    // After the name in parentheses: state, 6 numbers of its family, flags, minor faults, those of children, major
    // ones.
    let rest = text.rsplit_once(')').expect("a name").1;
    rest.split_whitespace().nth(9).and_then(|number| number.parse().ok()).expect("a number of faults")
}

/// Takes a file out of the page cache, as far as nobody holds it there.
fn evict(path: &Path) {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let _ = file.sync_all();
    // SAFETY: a system call on a descriptor that is open.
    let result = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(result, 0, "{} can be evicted", path.display());
}

/// How many pages of a file are in the page cache.
fn cached(path: &Path) -> usize {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let length = usize::try_from(file.metadata().expect("it is open").len()).expect("it fits into memory");
    let mut pages = vec![0; length.div_ceil(4096)];
    // SAFETY: a mapping of its own, into which nobody looks, is asked about with room for an answer per page.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(memory, libc::MAP_FAILED, "{} can be mapped", path.display());
        assert_eq!(libc::mincore(memory, length, pages.as_mut_ptr()), 0, "{} is in a page cache", path.display());
        libc::munmap(memory, length);
    }
    pages.iter().filter(|page| **page & 1 == 1).count()
}

#[test]
fn ringwatchd_is_locked_in_memory_and_needs_no_disk_to_notice_a_death() {
    in_lab(|lab| {
        let (program, other) = (Path::new(BUILT).join("ringwatchd"), Path::new(BUILT).join("ringwatch"));
        let job = Job::new().parameter("daemon", &program.display().to_string());
        let mut job = job.arguments(&["--op", "allreduce", "--hold"]).start(lab);
        job.wait_until_blocked();
        let watchers = HOSTS.map(|host| job.watcher(host).pid);
        for pid in watchers {
            let (locked, resident) = (kilobytes(pid, "VmLck").unwrap(), kilobytes(pid, "VmRSS").unwrap());
            // All that it has is locked, but for the kernel's own pages in it: no memory of it can be swapped out.
            if locked + 64 < resident || locked < 1024 {
                job.fail(&format!("ringwatchd has {resident} kB in memory and only {locked} kB of it locked"));
            }
        }
        let libraries = ["libc.so.6", "libgcc_s.so.1"].map(|name| Path::new("/usr/lib/x86_64-linux-gnu").join(name));
        let _ = fs::read(&other).expect("it is built");
        let before = watchers.map(waits_for_disk);
        libraries.iter().filter(|path| path.exists()).for_each(|path| evict(path));
        evict(&program);
        evict(&other);
        // What nobody holds is gone; the program of the running daemon is held.
        if cached(&other) != 0 {
            job.fail(&format!("{} pages of a program that does not run are still in the page cache", cached(&other)));
        }
        if cached(&program) == 0 {
            job.fail("the program of ringwatchd has left the page cache");
        }
        let at = job.signal_rank(VICTIM, libc::SIGKILL);
        job.wait_until_repaired(&[0, 1, 2, 4, 5, 6, 7]);
        let after = watchers.map(waits_for_disk);
        if after != before {
            job.fail(&format!("ringwatchd waited for the disk: {before:?} times before, {after:?} after"));
        }
        job.end();
        job.finish().recovered(&[VICTIM]).told_within(&[VICTIM], at, Duration::from_millis(300));
    });
}

/// Swap space of this machine for the time of a test, in a file.
struct Swap(PathBuf);

impl Swap {
    /// More than all processes of a job have.
    const MEBIBYTES: &str = "768";

    /// Nothing where the kernel lets nobody add any: without the rights of the real root, or without a disk.
    fn on() -> Option<Self> {
        // On a disk, as the programs are; a folder that is laid over another cannot be swapped to.
        let swap = Self(Path::new(BUILT).join("swap"));
        // What an interrupted run has left.
        swap.take_away();
        let text = swap.0.display().to_string();
        run(
            "dd",
            &["if=/dev/zero", &format!("of={text}"), "bs=1M", &format!("count={}", Self::MEBIBYTES), "status=none"],
        );
        fs::set_permissions(&swap.0, Permissions::from_mode(0o600)).expect("the file is ours");
        run("mkswap", &["--quiet", &text]);
        let added = Command::new("swapon").arg(&text).output().expect("swapon is installed");
        if !added.status.success() {
            skipped(&format!("no swap space can be added here: {}", String::from_utf8_lossy(&added.stderr).trim()));
            return None;
        }
        Some(swap)
    }

    fn take_away(&self) {
        let _ = Command::new("swapoff").arg(&self.0).output();
        let _ = fs::remove_file(&self.0);
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        self.take_away();
    }
}

/// Says what is missing, where it is seen although the test passes.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Has the kernel swap out all that it may of a process.
fn swap_out(pid: i32) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let range = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (begin, end) = fields.next()?.split_once('-')?;
        let is_data = fields.next()?.starts_with("rw-p");
        let number = |text| usize::from_str_radix(text, 16).ok();
        let (begin, end) = (number(begin)?, number(end)?);
        is_data.then(|| libc::iovec { iov_base: begin as *mut libc::c_void, iov_len: end - begin })
    };
    let ranges: Vec<_> = maps.lines().filter_map(range).collect();
    // SAFETY: a system call with a number, which gives a descriptor or an error.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if process < 0 {
        return;
    }
    for range in &ranges {
        let range: *const libc::iovec = range;
        // What is locked stays.
        // SAFETY: the descriptor is open and the range lives; the addresses in it are the other process's.
        unsafe { libc::syscall(libc::SYS_process_madvise, process, range, 1usize, libc::MADV_PAGEOUT, 0usize) };
    }
    // SAFETY: the descriptor is open, and nobody else has it.
    unsafe { libc::close(process as libc::c_int) };
}

#[test]
fn ringwatchd_keeps_its_deadlines_in_the_middle_of_swapping_jobs() {
    in_lab(|lab| {
        let Some(swap) = Swap::on() else { return };
        let mut job = Job::new().arguments(&["--op", "ring", "--busy"]).start(lab);
        job.wait_until_blocked();
        let watchers = HOSTS.map(|host| job.watcher(host).pid);
        let others: Vec<_> = job.processes().into_iter().map(|process| process.pid).collect();
        let others: Vec<_> = others.into_iter().filter(|pid| !watchers.contains(pid)).collect();
        let before = job.ranks().into_iter().map(|rank| waits_for_disk(job.pid(rank))).collect::<Vec<_>>();
        let watchers_before = watchers.map(waits_for_disk);
        let waited = |job: &Running<'_>| -> Vec<u64> {
            job.ranks().into_iter().zip(&before).map(|(rank, before)| waits_for_disk(job.pid(rank)) - before).collect()
        };
        let (begin, mut most) = (std::time::Instant::now(), 0);
        // For several timeouts, and until every rank has waited for its own memory again and again.
        while begin.elapsed() < 2 * A_WHILE || waited(&job).iter().any(|waits| *waits < 200) {
            if begin.elapsed() > Duration::from_secs(60) {
                job.fail(&format!("the ranks waited {:?} times for their memory in a minute", waited(&job)));
            }
            // Of ringwatchd the kernel takes what is not locked: the stacks of threads that have ended.
            for pid in others.iter().chain(&watchers) {
                swap_out(*pid);
            }
            most = most.max(others.iter().filter_map(|pid| kilobytes(*pid, "VmSwap")).sum::<u64>());
        }
        println!("up to {most} kB of the job swapped out; its ranks waited for their memory {:?} times", waited(&job));
        if job.diaries().all("error").next().is_some() || HOSTS.map(|host| job.watcher(host).pid) != watchers {
            job.fail("nobody is declared dead, and no ringwatchd was started again");
        }
        let at = job.signal_rank(VICTIM, libc::SIGKILL);
        job.wait_until_repaired(&[0, 1, 2, 4, 5, 6, 7]);
        let watchers_after = watchers.map(waits_for_disk);
        if watchers_after != watchers_before {
            job.fail(&format!("ringwatchd waited for its memory: {watchers_before:?} times, then {watchers_after:?}"));
        }
        job.end();
        job.finish().recovered(&[VICTIM]).told_within(&[VICTIM], at, Duration::from_secs(1));
        drop(swap);
    });
}
