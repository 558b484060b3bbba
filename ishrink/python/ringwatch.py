"""Operations on communicators that do not block, for mpi4py. Import this module before mpi4py.MPI, or preload
libringwatch.so.

    import ringwatch
    from mpi4py import MPI

    newcomm, request = ringwatch.ishrink(comm)
    request.Wait()

Each function returns the new communicator, which may be used when the request has completed and is MPI.COMM_NULL until
then, and the request. Any number may be under way at once. MPI.Exception is raised if the operation cannot be started.

mpi4py runs comm.reduce, allreduce, scan and exscan (of objects) on a duplicate of comm that it makes at the first such call,
and comm.Revoke() does not reach. Give comm an error scope before, so that a death interrupts them, too:

    info = MPI.Info.Create({"mpix_error_scope": "group"})
    comm = MPI.COMM_WORLD.Dup(info)

What shrinks make of comm has the scope as well.

Checkpoints (see ringwatch.h; the files are in the folder of hook_ringwatch_checkpoints):

    ringwatch.checkpoint_begin()
    ringwatch.checkpoint_register(0, array)     # any writable, contiguous buffer
    first = ringwatch.checkpoint_restore()      # a version, or None
    for step in range(0 if first is None else first + 1, steps):
        ...
        ringwatch.checkpoint_save(step)
    ringwatch.checkpoint_end()

The group of recommended processes (see ringwatch.h):

    ringwatch.group_join(comm, {"rw_interval": "1000"})
    members, place = ringwatch.group_members(), comm.rank
    while place is not None and ringwatch.group_round()[0] < rounds:
        ...                                     # this member's part; ringwatch.group_lost() while it waits for others
        members, place = ringwatch.group_barrier(complete=True)
    ringwatch.group_leave()

comm.reduce, allreduce, scan and exscan of objects count their calls in mpi4py's memory, which is in no checkpoint: a program
that saves uses comm.Allreduce and the like, of buffers, or comm.allgather.
"""
import ctypes
import os
import sys

# Before libmpi, and for all: the library stands in front of a function of Open MPI.
_library = ctypes.CDLL("libringwatch.so", mode=ctypes.RTLD_GLOBAL)

from mpi4py import MPI  # noqa: E402

# Communicators that are being made: their variables must stay where they are. One that was freed meanwhile looks the same
# and stays, too, which costs its object.
_under_way = []


def _start(function, newcomm, comm, *arguments):
    request = MPI.Request()
    # Addresses and handles are passed as they are, and numbers as C's int.
    words = [ctypes.c_void_p(MPI._addressof(newcomm)), ctypes.c_void_p(MPI._addressof(request))]
    words[1:1] = [None] if function == "MPIX_Comm_ispawn" else []
    code = getattr(_library, function)(*arguments, ctypes.c_void_p(MPI._handleof(comm)), *words)
    if code != MPI.SUCCESS:
        raise MPI.Exception(code)
    _under_way[:] = [other for other in _under_way if other == MPI.COMM_NULL]
    _under_way.append(newcomm)
    return newcomm, request


def _of(info, root):
    return ctypes.c_void_p(MPI._handleof(info)), ctypes.c_int(root)


def ishrink(comm):
    """Starts to make a communicator of the living members of an intracommunicator, which may be revoked."""
    return _start("MPIX_Comm_ishrink", MPI.Intracomm(), comm)


def ispawn(comm, command, args=(), maxprocs=1, info=MPI.INFO_NULL, root=0):
    """Starts to spawn processes, as comm.Spawn does."""
    words = [os.fsencode(word) for word in args]
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    return _start(
        "MPIX_Comm_ispawn", MPI.Intercomm(), comm, os.fsencode(command), argv, ctypes.c_int(maxprocs), *_of(info, root)
    )


def iaccept(comm, port_name, info=MPI.INFO_NULL, root=0):
    """Starts to accept a connection, as comm.Accept does."""
    return _start("MPIX_Comm_iaccept", MPI.Intercomm(), comm, port_name.encode(), *_of(info, root))


def iconnect(comm, port_name, info=MPI.INFO_NULL, root=0):
    """Starts to connect, as comm.Connect does."""
    return _start("MPIX_Comm_iconnect", MPI.Intercomm(), comm, port_name.encode(), *_of(info, root))


# Buffers that are saved, by number.
_registered = {}


def _check(code):
    if code != MPI.SUCCESS:
        raise MPI.Exception(code)


def checkpoint_begin():
    """Begins, after MPI is initialised. Raises MPI.Exception (MPI.ERR_NO_SUCH_FILE) without a folder."""
    _check(_library.RW_Checkpoint_begin())


def checkpoint_register(number, buffer):
    """Has checkpoints keep a writable, contiguous buffer under a number."""
    view = memoryview(buffer).cast("B")
    memory = (ctypes.c_char * view.nbytes).from_buffer(view)
    byte = ctypes.c_void_p(MPI._handleof(MPI.BYTE))
    count = ctypes.c_longlong(view.nbytes)
    _check(_library.RW_Checkpoint_register(ctypes.c_int(number), memory, count, byte))
    _registered[number] = memory


def checkpoint_restore():
    """Fills the buffers with the last whole version, and returns that; None if there is none."""
    version = ctypes.c_int()
    sys.stdout.flush()
    _check(_library.RW_Checkpoint_restore(ctypes.byref(version)))
    return None if version.value < 0 else version.value


def checkpoint_save(version):
    """Saves the buffers as a version, a number that is higher than all before."""
    sys.stdout.flush()
    _check(_library.RW_Checkpoint_save(ctypes.c_int(version)))


def checkpoint_end(keep=False):
    """Ends; the files go with the job, unless they are kept."""
    _check(_library.RW_Checkpoint_end(ctypes.c_int(keep)))


# The test of the group, which a thread of the library calls as long as this process lives.
_test = None
# Of the group, and of this round.
_processes = _members = 0

GROUP_STATES = ("member", "evicted", "dead", "left")


def _numbers(function, *arguments, results):
    numbers = [ctypes.c_int() for _ in range(results)]
    _check(getattr(_library, function)(*arguments, *(ctypes.byref(number) for number in numbers)))
    return [number.value for number in numbers]


def _ranks(function, *arguments):
    ranks = (ctypes.c_int * _processes)()
    _check(getattr(_library, function)(*arguments, ranks))
    return list(ranks)


def group_join(comm, parameters=None, test=None):
    """Joins the group, at all processes of comm. test() returns the same number at all of them; it has the interpreter's lock
    while it runs, so that a process that computes in Python is measured, too. Raises MPI.Exception as RW_Group_join says; then
    nothing has changed."""
    global _test, _processes, _members
    size, function = comm.size, None if test is None else ctypes.CFUNCTYPE(ctypes.c_longlong)(test)
    _check(_library.RW_Group_set_test(function))
    info = MPI.Info.Create(parameters) if parameters else MPI.INFO_NULL
    code = _library.RW_Group_join(ctypes.c_void_p(MPI._handleof(comm)), ctypes.c_void_p(MPI._handleof(info)))
    if parameters:
        info.Free()
    if code != MPI.SUCCESS:
        # The library must not keep a function that ends here.
        _library.RW_Group_set_test(None)
    _check(code)
    _test, _processes, _members = function, size, size


def group_barrier(complete=True):
    """Ends this process's part of the round, waits for the next, and returns its members and the place of this process among
    them; an empty list and None when the program is complete at the others."""
    global _members
    _members, place = _numbers("RW_Group_barrier", ctypes.c_int(complete), results=2)
    return ([], None) if _members == 0 else (group_members(), place)


def group_members():
    """The members of this round."""
    return _ranks("RW_Group_members")[:_members]


def group_round():
    """How many rounds are complete, the epoch of this round, and that of the last complete one."""
    return tuple(_numbers("RW_Group_round", results=3))


def group_returned():
    """Who takes part in this round, and did not in the one before."""
    count = ctypes.c_int()
    ranks = _ranks("RW_Group_returned", ctypes.byref(count))
    return ranks[: count.value]


def group_lost():
    """How many members of this round have left the group since it began, back again or not."""
    return _numbers("RW_Group_lost", results=1)[0]


def group_state(rank):
    """One of GROUP_STATES, and how often the process has left the group."""
    state, evictions = _numbers("RW_Group_state", ctypes.c_int(rank), results=2)
    return GROUP_STATES[state], evictions


def group_leave():
    """The program is complete at this process."""
    _check(_library.RW_Group_leave())
