"""The warm parent: pays for every import once, then forks a guest for each submission.

It runs inside bubblewrap, with a read-only system and no network, and holds no check, no solution and no
submission. Each guest gets namespaces of its own, with a keeper as their first process: it counts what the guest
uses, and when it ends, everything that the guest started ends with it.
"""

import array
import contextlib
import ctypes
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
CLONE = {"x86_64": 56, "aarch64": 220}
NOSUID, NODEV, NOEXEC = 2, 4, 8
PRIVATE, RECURSIVE = 0x40000, 0x4000
SET_DUMPABLE, SET_NO_NEW_PRIVS = 4, 38
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SCRATCH = "/scratch"
LARGE, MADV_HUGEPAGE, MADV_COLLAPSE = 2 << 20, 14, 25

# What no notebook needs, and what has been used to break out of a sandbox, or to outlive one.
FORBIDDEN = (
    "acct add_key bpf chroot clock_adjtime clock_settime create_module delete_module fanotify_init finit_module "
    "fsconfig fsmount fsopen fspick get_kernel_syms init_module io_uring_enter io_uring_register io_uring_setup "
    "ioperm iopl kcmp kexec_file_load kexec_load keyctl "
    "landlock_create_ruleset lookup_dcookie mbind memfd_create memfd_secret migrate_pages "
    "mount mount_setattr move_mount move_pages mq_open msgget "
    "name_to_handle_at nfsservctl open_by_handle_at open_tree perf_event_open personality "
    "pidfd_getfd pivot_root process_madvise "
    "process_vm_readv process_vm_writev ptrace quotactl quotactl_fd reboot request_key "
    "sched_setattr semget setdomainname sethostname setns settimeofday shmget swapoff swapon syslog umount "
    "umount2 unshare uselib userfaultfd vhangup"
).split()

REHEARSAL = """
import numpy as np
import warnings
%matplotlib inline
import matplotlib.pyplot as plt
def softmax(S):
    E = np.exp(S - S.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)
softmax(np.random.default_rng(0).normal(size=(3, 4, 4)))
fig, ax = plt.subplots()
ax.imshow(np.eye(4)); ax.plot([0, 1], [1, 0], label="a line"); ax.set_title("$x_i$"); ax.legend(); plt.show()
warnings.warn("rehearsed")
print("rehearsed")
%%rehearsal
1 / 0
%%rehearsal
def broken(
%%rehearsal
import torch
torch.softmax(torch.randn(3, 4, requires_grad=True) @ torch.randn(4, 5), -1).sum().backward()
torch.nn.Linear(3, 4)(torch.randn(2, 3))
np.einsum("ij,jk->ik", np.eye(3), np.eye(3)); np.linalg.norm(np.eye(3))
"""


class Nowhere:
    """Takes what the rehearsal shows."""

    def __init__(self):
        self.left = self.shown = 10**9

    def send(self, output):
        """Drop an output."""

    def rich(self, kind, data, **more):
        """Drop a display."""


def warm(imports):
    """Load everything that guests use, and rehearse a notebook, failing cells too: their code loads late."""
    import shell

    shell.one_thread()
    own = shell.make_shell()
    own.outputs = Nowhere()
    for name in imports:
        with contextlib.suppress(Exception):
            __import__(name)
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = shell.Stream("stdout", own.outputs, 1), shell.Stream("stderr", own.outputs, 2)
    for cell in REHEARSAL.split("%%rehearsal"):
        own.run_cell(cell, store_history=True)
    sys.stdout, sys.stderr = out, err
    with contextlib.suppress(Exception):
        import matplotlib.pyplot

        matplotlib.pyplot.close("all")
        matplotlib.rcdefaults()
        own.run_line_magic("matplotlib", "inline")
        # An inline figure is drawn when it is shown; matplotlib's own hook would draw it once more before that.
        own.events.unregister("post_execute", matplotlib.pyplot._draw_all_if_interactive)
    own.reset(new_session=True)
    own.execution_count = 1
    sys.last_value = sys.last_traceback = sys.last_type = None
    shell.forget_ourselves()
    return shell, own


def large_pages():
    """Put the parent's memory into large pages, where the kernel can: a fork then costs less than half as much."""
    regions, writable = [], False
    with open("/proc/self/smaps") as file:
        for line in file:
            first, *fields = line.split()
            if "-" in first and len(fields) >= 4:
                writable = "w" in fields[0] and (len(fields) == 4 or fields[4] == "[heap]")
                start, end = (int(part, 16) for part in first.split("-"))
            elif first == "Anonymous:" and writable and int(fields[0]) >= 1024:
                regions.append((-(-start // LARGE) * LARGE, end // LARGE * LARGE))
    for start, end in regions:
        if end > start:
            LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_HUGEPAGE)
            for page in range(start, end, LARGE):
                LIBC.madvise(ctypes.c_void_p(page), ctypes.c_size_t(LARGE), MADV_COLLAPSE)


def seccomp():
    """Return a loader of the filter that forbids a guest the system calls that it has no use for."""
    import pyseccomp

    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in FORBIDDEN:
        with contextlib.suppress(Exception):  # a call that this system does not have
            rules.add_rule(pyseccomp.ERRNO(1), name)
    # Only the families that stay within a namespace: a virtual machine's own sockets (AF_VSOCK) do not.
    for family in range(64):
        if family not in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
            rules.add_rule(pyseccomp.ERRNO(97), "socket", pyseccomp.Arg(0, pyseccomp.EQ, family))
    rules.add_rule(pyseccomp.ERRNO(97), "socket", pyseccomp.Arg(0, pyseccomp.GE, 64))
    clone_newuser = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, NEWUSER, NEWUSER)
    rules.add_rule(pyseccomp.ERRNO(1), "clone", clone_newuser)
    # The flags of clone3 cannot be seen from here; the C library falls back to clone.
    rules.add_rule(pyseccomp.ERRNO(38), "clone3")
    return rules.load


def fork_guest(shell, own, own_end, connection, control, limits, load_filter):
    """Fork a guest into namespaces of its own; return in the parent only."""
    uid, gid = os.getuid(), os.getgid()
    if _clone(NEWUSER | NEWPID | NEWNS | NEWIPC):
        return
    try:
        own_end.close()  # it brings the sockets of other guests
        _map(uid, gid)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        LIBC.prctl(SET_DUMPABLE, 0, 0, 0, 0)
        _mounts(limits)
        guest = os.fork()
        if guest:
            connection.close()
            keep(guest, control, limits)
        control.close()
        _confine(limits, load_filter)
        shell.Guest(own, connection).serve()
    except BaseException as error:
        with contextlib.suppress(BaseException):
            control.send(json.dumps({"ended": "sandbox", "text": f"{type(error).__name__}: {error}"}).encode())
    finally:
        os._exit(1)


def _clone(flags):
    """Fork into new namespaces at once: os.fork and unshare would take one fork more, and each costs much."""
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = ctypes.PyDLL(None).syscall(CLONE[os.uname().machine], flags | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("the kernel refuses namespaces")
    return pid


def _must(result, what):
    if result:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _mounts(limits):
    size = f"size={limits['disk_mb']}m,nr_inodes={limits['files']},mode=0700".encode()
    shared = f"size={limits['shared_mb']}m,nr_inodes=1000,mode=0700".encode()
    _must(LIBC.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None), "private mounts")
    _must(LIBC.mount(b"proc", b"/proc", b"proc", NOSUID | NODEV | NOEXEC, None), "mount /proc")
    _must(LIBC.mount(b"tmpfs", SCRATCH.encode(), b"tmpfs", NOSUID | NODEV, size), "mount the scratch folder")
    _must(LIBC.mount(b"tmpfs", b"/dev/shm", b"tmpfs", NOSUID | NODEV, shared), "mount /dev/shm")
    os.chdir(SCRATCH)
    os.mkdir(os.environ["TMPDIR"])


def _confine(limits, load_filter):
    """Give up every right that a student's code has no use for; there is no way back."""
    os.setsid()
    mega = 1 << 20
    for name, value in (
        ("NPROC", limits["processes"]),
        ("DATA", limits["memory_mb"] * mega + _mapped()),
        ("FSIZE", limits["disk_mb"] * mega),
        ("NOFILE", limits["descriptors"]),
        ("CORE", 0),
        ("MEMLOCK", 0),
    ):
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    sys.stdin = open(0, closefd=False)
    for number in range(1, 65):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    head, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    _must(LIBC.capset(head, none), "capset")
    _must(LIBC.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    load_filter()


def _mapped():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[5]) * PAGE


def keep(guest, control, limits):
    """Watch over one guest as the first process of its namespaces; never return.

    When the judge asks, it is told what the guest uses; when the judge is gone, or the guest is, or takes too much
    memory, everything ends.
    """
    usage, seen = {"cpu": 0.0, "idle": 0.0, "memory": 0}, time.monotonic()
    gone = {}
    poll = select.poll()
    poll.register(control, select.POLLIN | select.POLLHUP)
    ended = None
    while ended is None:
        if poll.poll(50):
            if not control.recv(16):
                os._exit(0)
            _count(usage, gone, seen)
            seen = time.monotonic()
            control.send(json.dumps(usage).encode())
        elif time.monotonic() - seen > 0.04:
            _count(usage, gone, seen)
            seen = time.monotonic()
        if usage["memory"] > limits["memory_mb"] << 20 and _shared_fairly() > limits["memory_mb"] << 20:
            ended = {"ended": "memory"}
        while ended is None:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            if pid == guest:
                code = os.waitstatus_to_exitcode(status)
                ended = {"ended": "exit" if code >= 0 else "signal", "code": abs(code)}
    with contextlib.suppress(OSError):
        control.send(json.dumps(ended).encode())
    os._exit(0)


def _count(usage, gone, seen):
    """Bring up to date what the guest's processes have used: seconds, bytes, and seconds in which nothing ran."""
    now, ticks, memory, running = time.monotonic(), {}, 0, False
    for name in os.listdir("/proc"):
        if not name.isdigit() or name == "1":
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            with open(f"/proc/{name}/statm", "rb") as file:
                pages = file.read().split()
        except OSError:
            continue
        running |= fields[0] in (b"R", b"D")
        ticks[name, fields[19]] = int(fields[11]) + int(fields[12])
        memory += (int(pages[1]) - int(pages[2])) * PAGE
    for own, used in ticks.items():
        running |= used > gone.get(own, 0)
    gone.update(ticks)  # the seconds of processes that have ended are kept
    if not running:
        usage["idle"] += now - seen
    usage.update(cpu=sum(gone.values()) / TICK, memory=memory)


def _shared_fairly():
    """Return the guest's memory with what its processes share counted once: slower, so asked only near the limit."""
    total = 0
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            try:
                with open(f"/proc/{name}/smaps_rollup", "rb") as file:
                    total += sum(int(line.split()[1]) << 10 for line in file if line.startswith(b"Pss_Anon:"))
            except OSError:
                with contextlib.suppress(OSError), open(f"/proc/{name}/statm", "rb") as file:
                    pages = file.read().split()
                    total += (int(pages[1]) - int(pages[2])) * PAGE
    return total


def received(connection, count):
    """Yield the sockets that come, `count` with each message, until the other end is closed."""
    while True:
        data, ancillary, _, _ = connection.recvmsg(64, socket.CMSG_LEN(count * 4))
        if not data:
            return
        descriptors = array.array("i")
        for _, _, raw in ancillary:
            descriptors.frombytes(raw)
        yield [socket.socket(fileno=own) for own in descriptors]


def lane(shell, own, worker, limits, load_filter):
    """Serve one worker: a guest for every pair of sockets that it sends, one after another.

    Each lane has a network of its own, with nothing but a loopback device: guests of different workers, which run at
    the same time, cannot find each other there.
    """
    uid, gid = os.getuid(), os.getgid()
    _must(LIBC.unshare(NEWUSER | NEWNET), "unshare")
    _map(uid, gid)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
    worker.send(b"warm")
    for connection, control in received(worker, 2):
        fork_guest(shell, own, worker, connection, control, limits, load_filter)
        connection.close()
        control.close()


def _map(uid, gid):
    for path, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{path}", "w") as file:
            file.write(text)


def main(descriptor, settings):
    """Warm up, then fork a lane for every socket that comes."""
    own_end = socket.socket(fileno=descriptor)
    os.environ["HOME"] = os.environ["MPLCONFIGDIR"] = SCRATCH
    os.chdir(SCRATCH)
    gc.disable()  # until everything is loaded, there is no garbage
    shell, own = warm(settings["imports"])
    load_filter = seccomp()
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("a module that was loaded beforehand has started threads; no guest can be forked")
    gc.enable()
    gc.collect()
    gc.freeze()
    large_pages()
    # Each search for garbage writes to memory that guest and parent share until then.
    gc.set_threshold(20_000, 20, 20)
    os.environ.update(HOME=SCRATCH, TMPDIR=f"{SCRATCH}/.tmp")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers that have ended leave nothing to wait for
    for (worker,) in received(own_end, 1):
        if os.fork() == 0:
            own_end.close()
            lane(shell, own, worker, settings["limits"], load_filter)
            os._exit(0)
        worker.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
