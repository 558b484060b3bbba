//! Topologies that are graphs.

use std::ffi::c_int;

use mpi_entry::entries::Handler;
use openmpi_internals::error_class::ERR_ARG;
use openmpi_internals::layout::mpi::{
    MPI_ERR_RANK, MPI_ERR_TOPOLOGY, MPI_UNDEFINED, MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY,
};
use openmpi_internals::object::Object;

use crate::comms::Comm;
use crate::data::Buffer;
use crate::entries::communicators::part;
use crate::entries::topologies::{fill, list};
use crate::handlers::handlers;
use crate::layer::{Layer, answer};
use crate::operation::{Operation, Place};
use crate::progress;
use crate::topology::{Edges, Graph, Topology};

pub(super) const HANDLERS: &[Handler] = handlers! {
    "Graph_create" => graph_create, "Graph_get" => graph_get, "Graphdims_get" => graphdims_get, "Graph_map" => graph_map,
    "Graph_neighbors" => graph_neighbors, "Graph_neighbors_count" => graph_neighbors_count,
    "Dist_graph_create" => dist_graph_create, "Dist_graph_create_adjacent" => dist_graph_create_adjacent,
    "Dist_graph_neighbors" => dist_graph_neighbors, "Dist_graph_neighbors_count" => dist_graph_neighbors_count,
};

fn graph(comm: &Comm) -> Result<&Graph, c_int> {
    if let Some(Topology::Graph(graph)) = &comm.topology { Ok(graph) } else { Err(MPI_ERR_TOPOLOGY) }
}

fn edges(comm: &Comm) -> Result<&Edges, c_int> {
    if let Some(Topology::Edges(edges)) = &comm.topology { Ok(edges) } else { Err(MPI_ERR_TOPOLOGY) }
}

/// The graph that the program describes.
///
/// # Safety
/// So many numbers, and as many edges as the last of them says.
unsafe fn described(comm: &Comm, nnodes: c_int, index: *const c_int, edges: *const c_int) -> Result<Graph, c_int> {
    // SAFETY: as required of the caller.
    unsafe {
        let index = list(index, nnodes)?;
        let edges = list(edges, index.last().copied().unwrap_or(0))?;
        Graph::new(index, edges).filter(|_| index.len() <= comm.size()).ok_or(ERR_ARG)
    }
}

unsafe extern "C-unwind" fn graph_create(
    comm: Object,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    _reorder: c_int,
    new: *mut Object,
) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        // SAFETY: lists of the program, and room for a handle.
        unsafe {
            let graph = described(&comm, nnodes, index, edges)?;
            let color = if comm.rank < graph.index.len() { 0 } else { MPI_UNDEFINED };
            *new = part(layer, &comm, color, 0, |_| Some(Topology::Graph(graph)))?;
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn graph_get(
    comm: Object,
    maxindex: c_int,
    maxedges: c_int,
    index: *mut c_int,
    edges: *mut c_int,
) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        let graph = graph(&comm)?;
        // SAFETY: room for so many numbers.
        unsafe {
            fill(index, maxindex, graph.index.iter().copied());
            fill(edges, maxedges, graph.edges.iter().copied());
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn graphdims_get(comm: Object, nnodes: *mut c_int, nedges: *mut c_int) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        let graph = graph(&comm)?;
        // SAFETY: room for the answers.
        unsafe { (*nnodes, *nedges) = (graph.index.len() as c_int, graph.edges.len() as c_int) };
        Ok(())
    })
}

unsafe extern "C-unwind" fn graph_map(
    comm: Object,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    new: *mut c_int,
) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        // SAFETY: lists of the program, and room for the answer.
        unsafe {
            let graph = described(&comm, nnodes, index, edges)?;
            *new = if comm.rank < graph.index.len() { comm.rank as c_int } else { MPI_UNDEFINED };
        }
        Ok(())
    })
}

/// The neighbours of any member.
fn neighbours(comm: &Comm, rank: c_int) -> Result<&[c_int], c_int> {
    let member = usize::try_from(rank).ok().filter(|member| *member < comm.size()).ok_or(MPI_ERR_RANK)?;
    Ok(graph(comm)?.neighbours(member))
}

unsafe extern "C-unwind" fn graph_neighbors(comm: Object, rank: c_int, most: c_int, places: *mut c_int) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        // SAFETY: room for so many numbers.
        unsafe { fill(places, most, neighbours(&comm, rank)?.iter().copied()) };
        Ok(())
    })
}

unsafe extern "C-unwind" fn graph_neighbors_count(comm: Object, rank: c_int, count: *mut c_int) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        // SAFETY: room for the answer.
        unsafe { *count = neighbours(&comm, rank)?.len() as c_int };
        Ok(())
    })
}

/// Weights of so many edges; `None` if the program gives none.
///
/// # Safety
/// As many weights, or one of the constants in place of them.
unsafe fn weights(place: *const c_int, count: c_int) -> Result<Option<Vec<c_int>>, c_int> {
    match place as usize {
        MPI_UNWEIGHTED => Ok(None),
        MPI_WEIGHTS_EMPTY => Ok(Some(Vec::new())),
        // SAFETY: as required of the caller.
        _ => unsafe { list(place, count).map(|weights| Some(weights.to_vec())) },
    }
}

fn weighted(members: &[c_int], weights: Option<&Vec<c_int>>) -> Vec<(c_int, c_int)> {
    let weight = |place: usize| weights.and_then(|weights| weights.get(place)).copied().unwrap_or(1);
    members.iter().enumerate().map(|(place, member)| (*member, weight(place))).collect()
}

unsafe extern "C-unwind" fn dist_graph_create_adjacent(
    comm: Object,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    _info: Object,
    _reorder: c_int,
    new: *mut Object,
) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        // SAFETY: lists of the program, and room for a handle.
        unsafe {
            let (incoming, outgoing) = (weights(sourceweights, indegree)?, weights(destweights, outdegree)?);
            let edges = Edges {
                sources: weighted(list(sources, indegree)?, incoming.as_ref()),
                destinations: weighted(list(destinations, outdegree)?, outgoing.as_ref()),
                is_weighted: incoming.is_some(),
            };
            *new = part(layer, &comm, 0, 0, |_| Some(Topology::Edges(edges)))?;
        }
        Ok(())
    })
}

/// The numbers of all members, of which each says how many it has.
fn all_numbers(layer: &'static Layer, place: &Place, mut own: Vec<c_int>) -> Result<Vec<c_int>, c_int> {
    let buffer = |numbers: &mut [c_int]| Buffer {
        address: numbers.as_mut_ptr().cast(),
        count: size_of_val(numbers) as c_int,
        datatype: layer.byte,
    };
    let exchange = |own: &mut [c_int], numbers: &mut [c_int], lengths: &[c_int]| {
        let mut rest = numbers;
        let part = |length: &c_int| {
            let (part, after) = std::mem::take(&mut rest).split_at_mut(*length as usize);
            rest = after;
            buffer(part)
        };
        let parts: Vec<Buffer> = lengths.iter().map(part).collect();
        progress::run(layer, Operation::of(place, place.member().gather_for_all(Some(buffer(own)), &parts)))
    };
    let mut lengths = vec![0; place.comm.size()];
    let ones = vec![1; place.comm.size()];
    exchange(&mut [own.len() as c_int], &mut lengths, &ones)?;
    let mut all = vec![0; lengths.iter().sum::<c_int>() as usize];
    exchange(&mut own, &mut all, &lengths)?;
    Ok(all)
}

unsafe extern "C-unwind" fn dist_graph_create(
    comm: Object,
    count: c_int,
    nodes: *const c_int,
    degrees: *const c_int,
    targets: *const c_int,
    edge_weights: *const c_int,
    _info: Object,
    _reorder: c_int,
    new: *mut Object,
) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        // SAFETY: lists of the program, and room for a handle.
        unsafe {
            let (nodes, degrees) = (list(nodes, count)?, list(degrees, count)?);
            let targets = list(targets, degrees.iter().sum())?;
            let given = weights(edge_weights, targets.len() as c_int)?;
            let from = nodes.iter().zip(degrees).flat_map(|(node, degree)| (0..*degree).map(|_| *node));
            let to = weighted(targets, given.as_ref());
            let own = from.zip(to).flat_map(|(from, (to, weight))| [from, to, weight]).collect();
            let all = all_numbers(layer, &Place::next(&comm), own)?;
            let all: Vec<[c_int; 3]> = all.chunks_exact(3).map(|edge| [edge[0], edge[1], edge[2]]).collect();
            let edges = Edges::of(comm.rank as c_int, &all, given.is_some());
            *new = part(layer, &comm, 0, 0, |_| Some(Topology::Edges(edges)))?;
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn dist_graph_neighbors_count(
    comm: Object,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    is_weighted: *mut c_int,
) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        let edges = edges(&comm)?;
        // SAFETY: room for the answers.
        unsafe {
            (*indegree, *outdegree) = (edges.sources.len() as c_int, edges.destinations.len() as c_int);
            *is_weighted = c_int::from(edges.is_weighted);
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn dist_graph_neighbors(
    comm: Object,
    most_sources: c_int,
    sources: *mut c_int,
    sourceweights: *mut c_int,
    most_destinations: c_int,
    destinations: *mut c_int,
    destweights: *mut c_int,
) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        let edges = edges(&comm)?;
        // SAFETY: room for so many numbers, or a constant in place of room for weights.
        unsafe {
            let tell = |most, members, weights: *mut c_int, edges: &[(c_int, c_int)]| {
                fill(members, most, edges.iter().map(|(member, _)| *member));
                if weights as usize != MPI_UNWEIGHTED && weights as usize != MPI_WEIGHTS_EMPTY {
                    fill(weights, most, edges.iter().map(|(_, weight)| *weight));
                }
            };
            tell(most_sources, sources, sourceweights, &edges.sources);
            tell(most_destinations, destinations, destweights, &edges.destinations);
        }
        Ok(())
    })
}
