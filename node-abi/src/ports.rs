//! Parses names of Open MPI's ports (`MPI_Open_port`, and the port through which spawning and spawned processes
//! connect): a name contains the process that has opened it, and the keys under which both sides publish begin with it.

/// The process that has opened the port at the begin of a key: a namespace among these, and a rank there. `None` if the
/// key begins with no port, or with one of another job.
#[must_use]
pub fn owner<'a>(key: &str, nspaces: impl IntoIterator<Item = &'a str>) -> Option<(&'a str, u32)> {
    let (job, rank) = key.split_once(':')?.0.split_once('.')?;
    let (job, rank) = (job.parse().ok()?, rank.parse().ok()?);
    nspaces.into_iter().find(|nspace| number_of(nspace) == Some(job)).map(|nspace| (nspace, rank))
}

/// The data that a process requests under a key that begins with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    /// The list of the other side's members.
    Members(&'a str),
    /// Data that both sides exchange after they have connected. Both have the port.
    More(&'a str),
}

/// The data requested under a key; `None` if it begins with no port.
#[must_use]
pub fn asked(key: &str) -> Option<Asked<'_>> {
    let (name, rest) = key.split_once(':')?;
    let (number, what) = rest.split_once(':')?;
    let port = &key[..name.len() + 1 + number.len()];
    Some(if ["connect", "accept"].contains(&what) { Asked::Members(port) } else { Asked::More(port) })
}

/// The processes of a list that Open MPI publishes for a side: "NAMESPACE.RANK" entries separated by colons, or
/// "NAMESPACE.*" with a number for all of a namespace, returned without a rank. Other entries are skipped.
pub fn members(list: &str) -> impl Iterator<Item = (&str, Option<u32>)> {
    list.split(':').filter_map(|name| {
        let (nspace, rank) = name.rsplit_once('.')?;
        if rank == "*" { Some((nspace, None)) } else { Some((nspace, Some(rank.parse().ok()?))) }
    })
}

/// Open MPI's number of a namespace's job: the number behind the `@`, and in the upper half Bob Jenkins' one-at-a-time
/// hash of the part before it, folded (`opal_pmix_convert_nspace`).
#[must_use]
pub fn number_of(nspace: &str) -> Option<u32> {
    let (universe, number) = nspace.rsplit_once('@')?;
    let mut hash = universe.bytes().fold(0_u32, |hash, byte| {
        let hash = hash.wrapping_add(byte.into());
        let hash = hash.wrapping_add(hash << 10);
        hash ^ (hash >> 6)
    });
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash = hash.wrapping_add(hash << 15);
    Some(((hash ^ (hash >> 16)) << 16) | (number.parse::<u32>().ok()? & 0xffff))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOBS: [&str; 2] = ["prterun-h1-245@1", "prterun-h1-245@2"];

    #[test]
    fn the_owner_is_a_rank_of_the_job_that_open_mpi_means() {
        // Open MPI 5.0.7 reports a rank of the second as "reported by process [3746627586,0]".
        assert_eq!(owner("3746627586.0:17:accept", JOBS), Some((JOBS[1], 0)));
        assert_eq!(owner("3746627585.3:17:tag:send:0", JOBS), Some((JOBS[0], 3)));
        assert_eq!(owner("2587230210.0:17:accept", ["prterun-h1-197@2"]), Some(("prterun-h1-197@2", 0)));
    }

    #[test]
    fn who_is_asked_for_comes_before_all_else() {
        assert_eq!(asked("3746627586.0:17:accept"), Some(Asked::Members("3746627586.0:17")));
        assert_eq!(asked("3746627586.0:17:tag:send:0"), Some(Asked::More("3746627586.0:17")));
        assert_eq!((asked("name"), asked("3746627586.0:17")), (None, None));
    }

    #[test]
    fn a_list_has_ranks_or_whole_namespaces() {
        let found = |list| members(list).collect::<Vec<_>>();
        assert_eq!(
            found("prterun-h1-245@1.0:prterun-h1.net-245@2.17"),
            [(JOBS[0], Some(0)), ("prterun-h1.net-245@2", Some(17))]
        );
        assert_eq!(found("prterun-h1-245@1.*:8"), [(JOBS[0], None)]);
        assert_eq!(found(""), []);
        assert_eq!(found("a.b:c.-1:.4294967296:8"), []);
    }

    #[test]
    fn other_keys_have_no_owner() {
        for key in ["", "a.b", "3746627587.0:17", "2587230210.0:17", "3746627585:17", "3746627585.x:17", "-1.0:1"] {
            assert_eq!(owner(key, JOBS), None, "{key}");
        }
        assert_eq!(owner("3746627585.3:17", ["without a number"]), None);
    }
}
