"""Operations on communicators that do not block, for mpi4py. Import this module before mpi4py.MPI, or preload
libringwatch.so.

    import ringwatch
    from mpi4py import MPI

    newcomm, request = ringwatch.ishrink(comm)
    request.Wait()

Each function returns the new communicator, which may be used when the request has completed and is MPI.COMM_NULL until
then, and the request. Any number may be under way at once. MPI.Exception is raised if the operation cannot be started.
"""
import ctypes
import os

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
