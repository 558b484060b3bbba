//! Ports of Open MPI (`MPI_Open_port`, and the one on which those who spawn and those who are spawned meet): their names
//! say who has opened them, and the keys under which both sides publish their words begin with them.

/// Who has opened the port with which a key begins: one of these namespaces, and a rank there. `None` if the key begins
/// with no port, or with one of somebody else.
#[must_use]
pub fn owner<'a>(key: &str, nspaces: impl IntoIterator<Item = &'a str>) -> Option<(&'a str, u32)> {
    let (job, rank) = key.split_once(':')?.0.split_once('.')?;
    let (job, rank) = (job.parse().ok()?, rank.parse().ok()?);
    nspaces.into_iter().find(|nspace| number_of(nspace) == Some(job)).map(|nspace| (nspace, rank))
}

/// What a process asks for under a key that begins with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    /// Who is on the other side.
    Members(&'a str),
    /// Something that both sides settle once all have met. Both have the port.
    More(&'a str),
}

/// What is asked for under a key; `None` if it begins with no port.
#[must_use]
pub fn asked(key: &str) -> Option<Asked<'_>> {
    let (name, rest) = key.split_once(':')?;
    let (number, what) = rest.split_once(':')?;
    let port = &key[..name.len() + 1 + number.len()];
    Some(if ["connect", "accept"].contains(&what) { Asked::Members(port) } else { Asked::More(port) })
}

/// The processes of a list, as Open MPI publishes it of a side: "NAMESPACE.RANK" and so on with colons between them, or
/// "NAMESPACE.*" and their number for all of a namespace, which have no rank here. What is none is left out.
pub fn members(list: &str) -> impl Iterator<Item = (&str, Option<u32>)> {
    list.split(':').filter_map(|name| {
        let (nspace, rank) = name.rsplit_once('.')?;
        if rank == "*" { Some((nspace, None)) } else { Some((nspace, Some(rank.parse().ok()?))) }
    })
}

/// What Open MPI calls the job of a namespace: the number behind the `@`, and above it Bob Jenkins' one-at-a-time hash of
/// what stands before, folded (`opal_pmix_convert_nspace`).
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
        // As Open MPI 5.0.7 says of a rank of the second: "reported by process [3746627586,0]".
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
