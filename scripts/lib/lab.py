"""The virtual hosts of the demonstration and the benchmarks: their processes, their links, and the terminal."""

import fcntl
import glob
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys

HOSTS = ["h1", "h2", "h3", "h4"]
RANKS = 8
HOSTS_SH = "/src/scripts/lib/hosts.sh"


def note(text, shown=[""]):
    """Progress on a terminal: one line that the next one replaces."""
    if sys.stderr.isatty() and text != shown[0]:
        sys.stderr.write("\r\033[K" + text)
        sys.stderr.flush()
        shown[0] = text


def hosts(*words):
    subprocess.run([HOSTS_SH, *words], check=True)


def host_of_namespace():
    return {os.stat(f"/run/netns/{h}").st_ino: h for h in HOSTS}


def processes():
    """pid -> (host, state, name) of everything that runs on a virtual host."""
    names, found = host_of_namespace(), {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            host = names.get(os.stat(f"/proc/{pid}/ns/net").st_ino)
            with open(f"/proc/{pid}/stat") as f:
                name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        state = rest.split()[0]
        if host and state not in "ZX":
            found[int(pid)] = (host, state, name)
    return found


def parent(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def pids_on(host):
    return [pid for pid, (h, _, _) in processes().items() if h == host]


def kill_host(host):
    """Again until nothing is left: a process may fork while it is killed."""
    while pids := pids_on(host):
        for pid in pids:
            kill(pid)


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def set_link(host, up):
    """Switches a host's link, as `ip link set` does, but at once: no process has to be started for it."""
    SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
    name = ("v" + host[1:]).encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = fcntl.ioctl(handle, SIOCGIFFLAGS, struct.pack("16sh14x", name, 0))
        flags = struct.unpack("16sh14x", request)[1]
        flags = flags | IFF_UP if up else flags & ~IFF_UP
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sh14x", name, flags))


def clean_up(mpirun):
    """Ends this mpirun and whatever else is left on the hosts, and removes what it left behind."""
    while left := processes():
        for pid in left:
            kill(pid)
    if mpirun.poll() is None:
        mpirun.kill()
    mpirun.wait()
    for path in glob.glob("/dev/shm/*") + glob.glob("/tmp/prte*") + glob.glob("/tmp/ompi*"):
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
