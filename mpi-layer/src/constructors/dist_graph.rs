//! Makes `MPI_Dist_graph_create` end at every member when a process dies. Each member contributes some of the edges.
//!
//! In Open MPI the members exchange their edges in messages, and ignore errors of these messages
//! (topo_base_dist_graph_create.c:213): with a dead member they wait for ever, or get different graphs. ringwatch
//! replaces that function. It exchanges the edges by collective operations of the new communicator. If the communicator
//! is uniform, all members agree on the result.

use std::ffi::c_int;
use std::mem::offset_of;
use std::mem::transmute;
use std::sync::OnceLock;

use crate::agreement::vote::About;
use crate::in_front::in_front;
use crate::uniform::operations;
use openmpi_internals::classes::Classes;
use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::functions::MCA_TOPO_BASE_DIST_GRAPH_DISTRIBUTE;
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::coll::{ALLTOALL, ALLTOALLV};
use openmpi_internals::layout::dist_graph;
use openmpi_internals::layout::mpi::MPI_UNWEIGHTED;
use openmpi_internals::object::{Base, Class, Object};
use openmpi_internals::variables::{MCA_TOPO_BASE_COMM_DIST_GRAPH_2_2_0_T_CLASS, OMPI_MPI_INT};

/// Words of an edge: neighbour and weight.
const WORDS: usize = 2;

type Exchange = unsafe extern "C" fn(*const c_int, c_int, Object, *mut c_int, c_int, Object, Object, Object) -> c_int;
#[rustfmt::skip]
type ExchangeMany = unsafe extern "C" fn(
    *const c_int, *const c_int, *const c_int, Object, *mut c_int, *const c_int, *const c_int, Object, Object, Object,
) -> c_int;

/// `mca_topo_base_comm_dist_graph_2_2_0_t`
#[repr(C)]
struct Graph {
    base: Base,
    /// Sources of incoming edges, and their weights.
    sources: *mut c_int,
    source_weights: *mut c_int,
    /// Destinations of outgoing edges, and their weights.
    destinations: *mut c_int,
    destination_weights: *mut c_int,
    source_count: c_int,
    destination_count: c_int,
    is_weighted: bool,
}

const _: () = assert!(offset_of!(Graph, sources) == dist_graph::IN);
const _: () = assert!(offset_of!(Graph, source_weights) == dist_graph::INW);
const _: () = assert!(offset_of!(Graph, destinations) == dist_graph::OUT);
const _: () = assert!(offset_of!(Graph, destination_weights) == dist_graph::OUTW);
const _: () = assert!(offset_of!(Graph, source_count) == dist_graph::INDEGREE);
const _: () = assert!(offset_of!(Graph, destination_count) == dist_graph::OUTDEGREE);
const _: () = assert!(offset_of!(Graph, is_weighted) == dist_graph::WEIGHTED);
const _: () = assert!(size_of::<Graph>() == dist_graph::SIZE);

struct Stock {
    class: *mut Class,
    integer: Object,
}

// SAFETY: addresses of objects that live as long as libmpi.
unsafe impl Send for Stock {}
// SAFETY: as above.
unsafe impl Sync for Stock {}

static STOCK: OnceLock<Stock> = OnceLock::new();

/// Replaces the function that makes such graphs. At the end of `MPI_Init`.
pub fn install(at: &Installer) -> Result<(), Missing> {
    let class = at.variable(MCA_TOPO_BASE_COMM_DIST_GRAPH_2_2_0_T_CLASS)?;
    let integer = at.predefined(OMPI_MPI_INT)?;
    // SAFETY: a class of Open MPI; our function has the type of the replaced one.
    unsafe {
        if (*class).size != size_of::<Graph>() {
            return Err(Missing::Layout);
        }
        let _ = STOCK.set(Stock { class, integer });
        at.redirect(MCA_TOPO_BASE_DIST_GRAPH_DISTRIBUTE, distribute).map(drop)
    }
}

in_front! { (mpi, stock) = Internals::fitting().zip(STOCK.get()), or ERR_INTERN;
    /// Makes this process's part of a graph. Each node has as many edges as its degree says, to consecutive entries of
    /// `targets`.
    unsafe extern "C" fn distribute(
        _module: Object, comm: Object, count: c_int, nodes: *const c_int, degrees: *const c_int, targets: *const c_int,
        weights: *const c_int, made: *mut Object
    ) -> c_int {
        let weights = Some(weights).filter(|weights| *weights as usize != MPI_UNWEIGHTED);
        // SAFETY: Open MPI passes checked lists of that many elements, and a communicator with its collectives; no
        // other code knows the objects made here.
        unsafe {
            let edges = edges(count, nodes, degrees, targets, weights);
            let mut graph = std::ptr::null_mut();
            let code = operations::agree_on(comm, About::Members, || match exchange_edges(mpi, stock.integer, comm, &edges) {
                Ok(mine) => {
                    graph = stock.graph(mpi, &mine, weights.is_some());
                    if graph.is_null() { ERR_INTERN } else { 0 }
                }
                Err(code) => code,
            });
            match (code, graph.is_null()) {
                (0, _) => made.write(graph.cast()),
                (_, false) => Classes::destroy(graph.cast()),
                (_, true) => {}
            }
            code
        }
    }
}

#[derive(Clone, Copy)]
struct Edge {
    from: c_int,
    to: c_int,
    weight: c_int,
}

/// # Safety
/// `nodes` and `degrees` have `count` elements, `targets` and `weights` as many as the sum of the degrees.
unsafe fn edges(
    count: c_int,
    nodes: *const c_int,
    degrees: *const c_int,
    targets: *const c_int,
    weights: Option<*const c_int>,
) -> Vec<Edge> {
    let mut edges = Vec::new();
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: as required of the caller.
        unsafe {
            for _ in 0..*degrees.add(index) {
                let place = edges.len();
                let weight = weights.map_or(0, |weights| *weights.add(place));
                edges.push(Edge { from: *nodes.add(index), to: *targets.add(place), weight });
            }
        }
    }
    edges
}

/// The neighbours of this process, each with the edge's weight.
#[derive(Default)]
struct Neighbours {
    sources: Vec<[c_int; WORDS]>,
    destinations: Vec<[c_int; WORDS]>,
}

/// Sends each edge to its two processes, and receives this process's edges; or an error code of MPI.
///
/// # Safety
/// A live communicator with its collectives, in an Open MPI of the known layout.
unsafe fn exchange_edges(mpi: &Internals, integer: Object, comm: Object, edges: &[Edge]) -> Result<Neighbours, c_int> {
    let size = usize::try_from(mpi.size_of(comm)).unwrap_or(0);
    let mut told: Vec<Neighbours> = (0..size).map(|_| Neighbours::default()).collect();
    for edge in edges {
        let at = |rank: c_int| usize::try_from(rank).unwrap_or(usize::MAX);
        told.get_mut(at(edge.from)).ok_or(ERR_INTERN)?.destinations.push([edge.to, edge.weight]);
        told.get_mut(at(edge.to)).ok_or(ERR_INTERN)?.sources.push([edge.from, edge.weight]);
    }
    let number = |count: usize| c_int::try_from(count).map_err(|_| ERR_INTERN);
    let mut counts = Vec::new();
    for one in &told {
        counts.extend([number(one.sources.len())?, number(one.destinations.len())?]);
    }
    let words: Vec<c_int> =
        told.iter().flat_map(|one| one.sources.iter().chain(&one.destinations)).flatten().copied().collect();
    // SAFETY: as required of the caller; the table has these functions in these slots, and the buffers are large
    // enough.
    unsafe {
        let table = mpi.table(comm);
        let mut coming = vec![0; counts.len()];
        let exchange = transmute::<Object, Exchange>(table[ALLTOALL].function);
        let module = table[ALLTOALL].module;
        let code = exchange(
            counts.as_ptr(),
            WORDS as c_int,
            integer,
            coming.as_mut_ptr(),
            WORDS as c_int,
            integer,
            comm,
            module,
        );
        if code != 0 {
            return Err(code);
        }
        let ([sendcounts, sdispls], [recvcounts, rdispls]) = (places(&counts)?, places(&coming)?);
        let mut there = vec![0; recvcounts.iter().map(|count| usize::try_from(*count).unwrap_or(0)).sum()];
        let exchange = transmute::<Object, ExchangeMany>(table[ALLTOALLV].function);
        let module = table[ALLTOALLV].module;
        let (sendbuf, recvbuf) = (words.as_ptr(), there.as_mut_ptr());
        let code = exchange(
            sendbuf,
            sendcounts.as_ptr(),
            sdispls.as_ptr(),
            integer,
            recvbuf,
            recvcounts.as_ptr(),
            rdispls.as_ptr(),
            integer,
            comm,
            module,
        );
        if code != 0 {
            return Err(code);
        }
        let mut mine = Neighbours::default();
        let mut pairs = there.chunks_exact(WORDS).map(|pair| [pair[0], pair[1]]);
        for one in coming.chunks_exact(WORDS) {
            mine.sources.extend(pairs.by_ref().take(usize::try_from(one[0]).unwrap_or(0)));
            mine.destinations.extend(pairs.by_ref().take(usize::try_from(one[1]).unwrap_or(0)));
        }
        Ok(mine)
    }
}

/// Numbers of words exchanged with each process, and their displacements, from the numbers of edges of both kinds.
fn places(counts: &[c_int]) -> Result<[Vec<c_int>; 2], c_int> {
    let (mut lengths, mut begins, mut begin) = (Vec::new(), Vec::new(), 0_i64);
    for one in counts.chunks_exact(WORDS) {
        let length = (i64::from(one[0]) + i64::from(one[1])) * WORDS as i64;
        let number = |count: i64| c_int::try_from(count).map_err(|_| ERR_INTERN);
        lengths.push(number(length)?);
        begins.push(number(begin)?);
        begin += length;
    }
    Ok([lengths, begins])
}

impl Stock {
    /// Open MPI's object, or null if memory is exhausted.
    ///
    /// # Safety
    /// `self.class` is the class of a [`Graph`].
    unsafe fn graph(&self, mpi: &Internals, mine: &Neighbours, is_weighted: bool) -> *mut Graph {
        // SAFETY: as required of the caller; no other code knows the object yet.
        unsafe {
            let object = mpi.classes.object(self.class).cast::<Graph>();
            let Some(graph) = object.as_mut() else { return object };
            let lists = [
                (&mut graph.sources, &mine.sources, 0, true),
                (&mut graph.source_weights, &mine.sources, 1, is_weighted),
                (&mut graph.destinations, &mine.destinations, 0, true),
                (&mut graph.destination_weights, &mine.destinations, 1, is_weighted),
            ];
            for (list, neighbours, word, is_wanted) in lists {
                if is_wanted && !neighbours.is_empty() {
                    // Open MPI frees it with `free`.
                    *list = libc::malloc(size_of_val(&neighbours[..]) / WORDS).cast();
                    if list.is_null() {
                        Classes::destroy(object.cast());
                        return std::ptr::null_mut();
                    }
                    neighbours.iter().enumerate().for_each(|(index, pair)| list.add(index).write(pair[word]));
                }
            }
            // The counts fit: the edges arrived in one message of at most that many words.
            graph.source_count = mine.sources.len() as c_int;
            graph.destination_count = mine.destinations.len() as c_int;
            graph.is_weighted = is_weighted;
            object
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lie_one_after_the_other() {
        assert_eq!(places(&[1, 2, 0, 0, 3, 0]), Ok([vec![6, 0, 6], vec![0, 6, 6]]));
    }

    #[test]
    fn what_mpi_cannot_count_is_an_error() {
        assert_eq!(places(&[c_int::MAX, 0]), Err(ERR_INTERN));
        assert_eq!(places(&[1 << 29, 0, 1 << 29, 0, 1, 0]), Err(ERR_INTERN));
    }
}
