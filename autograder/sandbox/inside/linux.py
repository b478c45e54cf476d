"""Calls of the Linux kernel that Python has no function for, and the kernel's numbers by their
names.
"""

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
from typing import NoReturn

LIBC = ctypes.CDLL(None, use_errno=True)
# For `clone`: the child has only this thread, which must have Python's lock.
LIBC_HOLDING_THE_LOCK = ctypes.PyDLL(None)
# bytes: what other sockets have by default; 4 MB to send and 32 MB to receive are usual for TCP
TCP_BUFFER = 212_992
SHARED_MEMORY = "/dev/shm"  # noqa: S108 (a folder of the guest's own is mounted there)
INSTRUCTION = 8  # bytes of one instruction of a filter

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
GUEST_NAMESPACES = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC
CHANNEL_NAMESPACES = CLONE_NEWUSER | CLONE_NEWNET

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REC = 0x4000
MS_PRIVATE = 0x40000

PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2
LINUX_CAPABILITY_VERSION_3 = 0x20080522

MADV_HUGEPAGE = 14
MADV_COLLAPSE = 25

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
# bytes: smaller pieces are kept when they are freed, and up to as many at the end of the heap
KEPT = 1 << 25

SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1

SYS_CLONE = {"x86_64": 56, "aarch64": 220}


def must(result: int, action: str) -> None:
    """Raise the kernel's own error if a call failed, with what was wanted of it."""
    if result:
        raise OSError(ctypes.get_errno(), f"{action}: {os.strerror(ctypes.get_errno())}")


def keep_memory() -> None:
    """Let malloc keep what is freed: with each array of a megabyte, the kernel would clear its
    pages once more.
    """
    with contextlib.suppress(AttributeError):  # of another C library than GNU's
        for name in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            LIBC.mallopt(name, KEPT)


def clone(flags: int) -> int:
    """Fork into new namespaces at once: os.fork and unshare would take one fork more, and each
    costs much.
    """
    # As `os.fork` does: it prepares Python's own locks.
    ctypes.pythonapi.PyOS_BeforeFork()
    # The order of the arguments after the flags differs between machines; all of them are 0.
    pid: int = LIBC_HOLDING_THE_LOCK.syscall(
        SYS_CLONE[os.uname().machine], flags | signal.SIGCHLD, 0, 0, 0, 0
    )
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("the kernel refuses namespaces")
    return pid


def unshare(flags: int) -> None:
    """Put this process into new namespaces."""
    must(LIBC.unshare(flags), "unshare")


def map_user(uid: int, gid: int) -> None:
    """Be the user `uid` in a user namespace that was just made."""
    # In this order: without `deny`, the kernel refuses a map of groups.
    for path, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{path}", "w") as file:
            file.write(text)


def private_mounts() -> None:
    """Keep to this mount namespace whatever is mounted in it."""
    must(LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")


def mount_proc() -> None:
    """Mount a view of this namespace's processes, and of no others."""
    must(
        LIBC.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None),
        "mount /proc",
    )


def mount_tmpfs(path: str, megabytes: int, files: int) -> None:
    """Mount an empty folder in memory that holds no more than this."""
    options = f"size={megabytes}m,nr_inodes={files},mode=0700".encode()
    must(
        LIBC.mount(b"tmpfs", path.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, options),
        f"mount {path}",
    )


def loopback_up() -> None:
    """Switch on the loopback device of a network namespace that was just made."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))


def bound_tcp_buffers() -> None:
    """Bound what the connections within a new network namespace can hold, where its settings can
    be written.
    """
    for name in ("tcp_wmem", "tcp_rmem"):
        with contextlib.suppress(OSError), open(f"/proc/sys/net/ipv4/{name}", "w") as file:
            file.write(f"4096 16384 {TCP_BUFFER}")


def not_dumpable() -> None:
    """Hide this process's memory, environment and descriptors from others of the same user."""
    must(LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "not dumpable")


def drop_capabilities() -> None:
    """Give up every capability, and the gaining of any by executing a program."""
    header = (ctypes.c_uint32 * 2)(LINUX_CAPABILITY_VERSION_3, 0)
    no_capabilities = (ctypes.c_uint32 * 6)()
    must(LIBC.capset(header, no_capabilities), "capset")
    # Without this, the kernel refuses a filter of a process without capabilities.
    must(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def use_large_pages(start: int, end: int, size: int) -> None:
    """Put the memory from `start` to `end` into pages of `size` bytes, where the kernel can."""
    LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_HUGEPAGE)
    for page in range(start, end, size):
        LIBC.madvise(ctypes.c_void_p(page), ctypes.c_size_t(size), MADV_COLLAPSE)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def load_filter(program: bytes) -> None:
    """Let a filter of system calls (the bytes of its instructions) bind this process, and all
    that it starts.
    """
    instructions = _Program(len(program) // INSTRUCTION, program)
    must(
        LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(instructions), 0, 0),
        "the filter of system calls",
    )


def enter_channel() -> None:
    """Give this process a network with nothing but a loopback device, and the right to make
    namespaces in it.
    """
    uid, gid = os.getuid(), os.getgid()
    unshare(CHANNEL_NAMESPACES)
    map_user(uid, gid)
    loopback_up()
    bound_tcp_buffers()


def enter_guest(uid: int, gid: int, folders: dict[str, tuple[int, int]]) -> None:
    """Furnish the namespaces that `clone` made: processes of their own, and empty folders (path:
    MB and files).
    """
    map_user(uid, gid)
    # After the maps: a process that is not dumpable may not write these files of its own.
    not_dumpable()
    private_mounts()
    mount_proc()
    for path, (megabytes, files) in folders.items():
        mount_tmpfs(path, megabytes, files)


def probe() -> NoReturn:
    """Make every namespace and every mount that a guest gets, once, and exit with 0 if all could
    be made.
    """
    uid, gid = os.getuid(), os.getgid()
    enter_channel()
    child = clone(GUEST_NAMESPACES)
    if child == 0:
        try:
            enter_guest(uid, gid, {"/scratch": (1, 10), SHARED_MEMORY: (1, 10)})
        except OSError as error:
            os.write(2, f"{error}\n".encode())
            os._exit(1)
        os._exit(0)
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
