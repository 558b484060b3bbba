"""MPIX_Comm_ishrink for mpi4py. Import this module before mpi4py.MPI, or preload libringwatch.so.

    import ringwatch
    from mpi4py import MPI

    newcomm, request = ringwatch.ishrink(comm)
    request.Wait()
"""
import ctypes

# Before libmpi, and for all: the library stands in front of a function of Open MPI.
_library = ctypes.CDLL("libringwatch.so", mode=ctypes.RTLD_GLOBAL)

from mpi4py import MPI  # noqa: E402

_start = _library.MPIX_Comm_ishrink
_start.argtypes = [ctypes.c_void_p] * 3
_start.restype = ctypes.c_int

# Communicators that are being made: their variables must stay where they are. One that was freed meanwhile looks the same
# and stays, too, which costs its object.
_under_way = []


def ishrink(comm):
    """Starts to make a communicator of the living members of an intracommunicator, which may be revoked.

    Returns the new communicator, which may be used when the request has completed and is MPI.COMM_NULL until then, and
    the request. Any number may be under way at once. Raises MPI.Exception if the operation cannot be started.
    """
    newcomm, request = MPI.Intracomm(), MPI.Request()
    code = _start(MPI._handleof(comm), MPI._addressof(newcomm), MPI._addressof(request))
    if code != MPI.SUCCESS:
        raise MPI.Exception(code)
    _under_way[:] = [other for other in _under_way if other == MPI.COMM_NULL]
    _under_way.append(newcomm)
    return newcomm, request
