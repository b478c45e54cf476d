"""The filter of system calls: a guest may make those of an allow-list, and no others.

`syscalls.txt` is made from the containers projects' default profile, which its maintainers keep up
with the kernel, less what no notebook needs. To renew it, with a newer profile:

    python -m autograder.sandbox.inside.seccomp seccomp.json "containers-common 0.50.1" >
    syscalls.txt
"""

import contextlib
import errno
import json
import os
import socket
import sys
import tempfile
import textwrap
from typing import Any

from autograder.sandbox.inside import linux

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "syscalls.txt")

# Sockets only of the families that stay within a namespace: a virtual machine's own (AF_VSOCK) do
# not.
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
FAMILIES_BELOW = 64  # more than there are

# A socket keeps the buffers that it has: a wish for others is heard, and not granted (the kernel
# need not either).
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
BUFFER_OPTIONS = (socket.SO_SNDBUF, socket.SO_RCVBUF, SO_SNDBUFFORCE, SO_RCVBUFFORCE)
OPTIONS_BELOW = 96
SOL_NETLINK = 270
OPTION_LEVELS = (
    socket.IPPROTO_IP,
    socket.IPPROTO_TCP,
    socket.IPPROTO_UDP,
    socket.IPPROTO_IPV6,
    SOL_NETLINK,
)

NUMBERS = 1024  # of system calls: more than there are

# The profile is for everything that runs in containers. A notebook needs less. Refused is what it
# has no use for, and what has been used to break out of a sandbox, to outlive one, or to allocate
# memory that no limit counts.
REFUSED = (
    "clock_adjtime clock_adjtime64 epoll_ctl_old epoll_wait_old fanotify_init fanotify_mark "
    "fsconfig fsmount fsopen fspick ipc keyctl landlock_add_rule landlock_create_ruleset "
    "landlock_restrict_self mbind memfd_create memfd_secret modify_ldt mount mount_setattr "
    "move_mount mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 "
    "mq_timedsend mq_timedsend_time64 mq_unlink msgctl msgget msgrcv msgsnd name_to_handle_at "
    "open_tree pidfd_getfd pivot_root process_mrelease process_vm_readv process_vm_writev ptrace "
    "reboot sched_setattr semctl semget semop semtimedop semtimedop_time64 setns shmat shmctl "
    "shmdt shmget syscall syslog umount umount2 unshare"
).split()
WITH_ARGUMENTS = (
    "clone",
    "clone3",
    "setsockopt",
    "socket",
    "socketcall",
    "socketpair",
)  # decided below, by what they are asked for
ALSO = ("fchmodat2",)  # newer than the profile; the C library takes a refusal for an answer
ARCHITECTURES = {"amd64", "arm64"}


class NotPossible(Exception):
    """The filter cannot be made here; the message says which rule."""


def filter_program() -> bytes:
    """Return the filter as the kernel takes it; it is made once, and each guest loads it."""
    import pyseccomp

    rules = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.ENOSYS))
    refuse = pyseccomp.ERRNO(errno.EPERM)
    # a binary search instead of one comparison after another
    rules.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, 2)
    known = _known(pyseccomp)
    allowed = set(allowed_names())

    def add(action: Any, name: str, *arguments: Any) -> None:
        try:
            rules.add_rule_exactly(action, known[name], *arguments)
        except (OSError, KeyError) as error:
            raise NotPossible(
                f"a rule of the system call filter cannot be made, for {name}: {error!r}"
            ) from None

    for name in known:
        if name not in WITH_ARGUMENTS:
            add(pyseccomp.ALLOW if name in allowed else refuse, name)
    # What libseccomp does not know does not exist here (ENOSYS): the C library then does it in
    # another way.

    no_family = pyseccomp.ERRNO(errno.EAFNOSUPPORT)
    for family in range(FAMILIES_BELOW):
        add(
            pyseccomp.ALLOW if family in FAMILIES else no_family,
            "socket",
            pyseccomp.Arg(0, pyseccomp.EQ, family),
        )
    add(no_family, "socket", pyseccomp.Arg(0, pyseccomp.GE, FAMILIES_BELOW))
    add(pyseccomp.ALLOW, "socketpair", pyseccomp.Arg(0, pyseccomp.EQ, socket.AF_UNIX))
    add(no_family, "socketpair", pyseccomp.Arg(0, pyseccomp.NE, socket.AF_UNIX))

    # All other new namespaces need a capability, which a guest can get only in a new user
    # namespace.
    add(pyseccomp.ALLOW, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, linux.CLONE_NEWUSER, 0))
    add(
        refuse,
        "clone",
        pyseccomp.Arg(0, pyseccomp.MASKED_EQ, linux.CLONE_NEWUSER, linux.CLONE_NEWUSER),
    )
    for level in OPTION_LEVELS:
        add(pyseccomp.ALLOW, "setsockopt", pyseccomp.Arg(1, pyseccomp.EQ, level))
    for option in range(OPTIONS_BELOW):
        action = pyseccomp.ERRNO(0) if option in BUFFER_OPTIONS else pyseccomp.ALLOW
        of_socket = pyseccomp.Arg(1, pyseccomp.EQ, socket.SOL_SOCKET)
        add(action, "setsockopt", of_socket, pyseccomp.Arg(2, pyseccomp.EQ, option))

    # The flags of clone3 cannot be seen from here: no rule, so that it does not exist, and
    # libraries take clone.
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def allowed_names() -> list[str]:
    """Return the names of the list."""
    with open(LIST, encoding="ascii") as file:
        return [name for line in file if not line.startswith("#") for name in line.split()]


def _known(pyseccomp: Any) -> dict[str, int]:
    """Return the system calls of this machine that libseccomp knows, by name."""
    numbers = {}
    for number in range(NUMBERS):
        with contextlib.suppress(ValueError):  # no system call has this number
            numbers[pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, number).decode()] = number
    return numbers


def names_of(profile: dict[str, Any]) -> list[str]:
    """Return what a profile of the containers projects allows without any capability, less what
    we refuse.
    """
    names = set(ALSO)
    for rule in profile["syscalls"]:
        includes = rule.get("includes") or {}
        is_for_us = not includes.get("arches") or ARCHITECTURES & set(includes["arches"])
        is_unconditional = not includes.get("caps") and not rule.get("args")
        if rule["action"] == "SCMP_ACT_ALLOW" and is_for_us and is_unconditional:
            names |= set(rule["names"])
    return sorted(names - {*REFUSED, *WITH_ARGUMENTS})


def main(profile: str, version: str) -> None:
    """Print the list made from a profile."""
    with open(profile, encoding="utf-8") as file:
        names = names_of(json.load(file))
    print(
        "# The system calls that a guest may make. Written by seccomp.py, whose first lines say "
        "how; do not edit."
    )
    print(f"# From the default profile of {version}, less what seccomp.py refuses.")
    print(textwrap.fill(" ".join(names), 100))


if __name__ == "__main__":
    main(*sys.argv[1:])
