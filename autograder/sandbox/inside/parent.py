"""The warm parent: pays for every import once, then forks a guest for each submission.

It runs inside bubblewrap, with a read-only system and no network, and holds no check, no solution
and no submission. Each guest gets namespaces of its own, with a keeper as their first process.
"""

import array
import contextlib
import gc
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from autograder.sandbox.inside import keeper, linux, seccomp

SCRATCH = "/scratch"
SHARED_FILES = 1000  # in /dev/shm
FILES_WITH_GPU = 1024  # open ones of one process
MOST_MESSAGE = 4096  # bytes of what a worker asks
PLAIN = "plain"
LARGE_PAGE = 2 << 20
WORTH_IT_KB = 1024  # of a region of memory: below that, large pages save nothing

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
ax.imshow(np.eye(4)); ax.plot([0, 1], [1, 0], label="a line")
ax.set_title("$x_i$"); ax.legend(); plt.show()
warnings.warn("rehearsed")
print("rehearsed")
%%rehearsal
1 / 0
%%rehearsal
def broken(
%%rehearsal
np.einsum("ij,jk->ik", np.eye(3), np.eye(3)); np.linalg.norm(np.eye(3))
"""

# A gradient that is given, and the first step of an optimizer, load what takes half a second and
# more.
REHEARSAL_OF_TORCH = """
%%rehearsal
import torch
scores = torch.randn(3, 4, requires_grad=True) @ torch.randn(4, 5)
torch.softmax(scores, -1).backward(torch.ones(3, 5))
layer = torch.nn.Linear(3, 4)
layer.load_state_dict(layer.state_dict())
optimizer = torch.optim.Adam(layer.parameters())
torch.nn.functional.cross_entropy(layer(torch.randn(2, 3)), torch.tensor([0, 1])).backward()
optimizer.step()
"""


Serve = Callable[[socket.socket], None]
"""Be a guest at this end of its wire, until the judge hangs up."""


def warm(
    imports: Sequence[str], load_only: Sequence[str], rehearse: bool, rehearsals: Sequence[str] = ()
) -> Serve:
    """Load everything that guests use, and rehearse a notebook, failing cells too: their code loads
    late.

    Return the function that a guest runs after its fork.

    The modules in `load_only` are loaded as well, and not rehearsed; `rehearsals` are cells of the
    exercises. Without `rehearse`, torch is only imported: where guests may use a GPU, a first
    gradient looks for devices and starts a thread for each, and no thread survives a fork.
    """
    from autograder.sandbox.inside import responder, shell

    if any(map(_is_torch, [*imports, *load_only])):  # importing torch takes seconds
        shell.one_thread()
    interactive = shell.make_shell()
    interactive.outputs = shell.Outputs(None)
    shell.load([*imports, *load_only])
    gc.freeze()  # later searches for garbage skip the modules
    cells = REHEARSAL
    if rehearse and any(map(_is_torch, imports)):
        cells += REHEARSAL_OF_TORCH
    _rehearse(interactive, [*cells.split("%%rehearsal"), *(rehearsals if rehearse else ())])
    interactive.reset(new_session=True)
    interactive.execution_count = 1
    # `reset` deletes it, but processes that are spawned look for it
    interactive.user_ns["__spec__"] = None
    sys.last_value = sys.last_traceback = sys.last_type = None
    shell.forget_ourselves()

    def serve(connection: socket.socket) -> None:
        responder.Responder(interactive, connection).serve()

    return serve


def _rehearse(interactive: Any, cells: Sequence[str]) -> None:
    """Run cells; afterwards streams and matplotlib are as before."""
    from autograder.sandbox.inside import shell

    out, err = sys.stdout, sys.stderr
    sys.stdout = shell.Stream("stdout", interactive.outputs, 1)
    sys.stderr = shell.Stream("stderr", interactive.outputs, 2)
    for cell in cells:
        interactive.run_cell(cell, store_history=True)
    sys.stdout, sys.stderr = out, err
    with contextlib.suppress(Exception):
        import matplotlib.pyplot

        matplotlib.pyplot.close("all")
        matplotlib.rcdefaults()
        interactive.run_line_magic("matplotlib", "inline")
        # An inline figure is drawn when it is shown; matplotlib's own hook would draw it once more
        # before that.
        matplotlib.pyplot.uninstall_repl_displayhook()


def _threads() -> str:
    """Return the names of this process's threads besides the first one, in one line."""
    names = []
    for number in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{number}/comm") as file:
            if int(number) != os.getpid():
                names.append(file.read().strip())
    return ", ".join(names)


def _is_torch(name: str) -> bool:
    return name.partition(".")[0] == "torch"


def large_pages() -> None:
    """Put the parent's memory into large pages, where the kernel can.

    That takes a quarter of a second. A guest is then forked and has run its first cell, with torch
    loaded, in 15 ms instead of 33.
    """
    regions = []
    writable = False
    with open("/proc/self/smaps") as file:
        for line in file:
            first, *fields = line.split()
            # a region's first line: addresses, permissions, offset, device, inode, file if any
            if "-" in first and len(fields) >= 4:
                writable = "w" in fields[0] and (len(fields) == 4 or fields[4] == "[heap]")
                start, end = (int(part, 16) for part in first.split("-"))
            elif first == "Anonymous:" and writable and int(fields[0]) >= WORTH_IT_KB:
                regions.append((start, end))
    for start, end in regions:
        # Only whole large pages: the start is rounded up, the end down.
        first_page = (start + LARGE_PAGE - 1) // LARGE_PAGE * LARGE_PAGE
        last_page = end // LARGE_PAGE * LARGE_PAGE
        if last_page > first_page:
            linux.use_large_pages(first_page, last_page, LARGE_PAGE)


def fork_guest(
    serve: Serve,
    worker: socket.socket,
    connection: socket.socket,
    control: socket.socket,
    limits: dict[str, Any],
    filter_program: bytes,
    gpu: bool,
) -> None:
    """Fork a guest into namespaces of its own; return in the parent only."""
    uid, gid = os.getuid(), os.getgid()
    if linux.clone(linux.GUEST_NAMESPACES):
        return
    try:
        worker.close()  # it brings the sockets of other guests
        # The parent ignores it, and then the kernel would keep no exit code for the keeper.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        linux.enter_guest(uid, gid, _folders(limits))
        os.chdir(SCRATCH)
        # The one that bubblewrap made is covered by the new scratch space.
        os.mkdir(os.environ["TMPDIR"])
        guest = os.fork()
        if guest:
            connection.close()  # the judge notices the guest's end only if no one else has this
            keeper.keep(guest, control, limits)
        _confine(limits, filter_program, gpu)
    except BaseException as error:
        with contextlib.suppress(BaseException):
            answer = {"ended": "sandbox", "text": f"{type(error).__name__}: {error}"}
            control.send(json.dumps(answer).encode())
        os._exit(1)
    try:
        control.close()  # a guest must not answer as its own keeper
        serve(connection)
    finally:  # from here on, whatever happens is the student's doing
        os._exit(1)


def _folders(limits: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Return the folders in memory that a guest may write to: MB and files of each."""
    return {
        SCRATCH: (limits["disk_mb"], limits["files"]),
        linux.SHARED_MEMORY: (limits["shared_mb"], SHARED_FILES),
    }


def _confine(limits: dict[str, Any], filter_program: bytes, gpu: bool) -> None:
    """Give up every right that a student's code has no use for; there is no way back.

    CUDA takes addresses by the gigabyte that it does not fill, and opens a file for each of its
    queues: with a GPU the keeper alone counts memory, and there are more files.
    """
    os.setsid()
    files = limits["descriptors"]
    memory = (limits["memory_mb"] << 20) + _data_so_far()
    if gpu:
        files = max(files, FILES_WITH_GPU)
        memory = resource.RLIM_INFINITY
    for kind, value in (
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_FSIZE, limits["disk_mb"] << 20),
        (resource.RLIMIT_NOFILE, files),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        # A container may allow less, and no process here can raise that.
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY:
            value = hard if value == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 (it lasts as long as the guest)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # Last, and in this order: see `drop_capabilities`.
    linux.drop_capabilities()
    linux.load_filter(filter_program)


def _data_so_far() -> int:
    """Return the bytes of private memory that this process has already, shared with its parent
    or not.
    """
    with open("/proc/self/statm") as file:
        return int(file.read().split()[5]) * keeper.PAGE


def received(connection: socket.socket, count: int) -> Iterator[tuple[bytes, list[socket.socket]]]:
    """Yield the messages that come, and the `count` sockets with each, until the other end is
    closed.
    """
    while True:
        data, ancillary, _, _ = connection.recvmsg(MOST_MESSAGE, socket.CMSG_LEN(count * 4))
        if not data:
            return
        descriptors = array.array("i")
        for _, _, raw in ancillary:
            descriptors.frombytes(raw)
        yield data, [socket.socket(fileno=descriptor) for descriptor in descriptors]


def serve_channel(
    serve: Serve, worker: socket.socket, filter_program: bytes, gpu: bool, core: int | None
) -> None:
    """Serve one worker: a guest for every pair of sockets that it sends with its limits, one after
    another.

    Where a core is given, this process and its guests keep to it.

    Each channel has a network of its own, with nothing but a loopback device: guests of different
    workers, which run at the same time, cannot find each other there.
    """
    # Before any guest: a guest's namespaces are made inside of these.
    linux.enter_channel()
    if core is not None:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {core})
    _default_signals()
    worker.send(b"warm")
    for limits, (connection, control) in received(worker, 2):
        fork_guest(serve, worker, connection, control, json.loads(limits), filter_program, gpu)
        connection.close()
        control.close()


def _default_signals() -> None:
    """Remove all handlers of signals: the kernel then keeps a guest's signals from its keeper, the
    process 1.
    """
    unchanged = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE}
    for number in signal.valid_signals() - unchanged:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)


def main(
    descriptor: str, imports: str, load_only: str, gpu: str, rehearsals: str, plain: str = ""
) -> None:
    """Warm up, then fork a process for every channel that comes: a socket over which a worker asks
    for guests.

    Parameters
    ----------
    descriptor : str
        The number of the socket that channels come through.
    imports, load_only, rehearsals : str
        As JSON: modules to load and rehearse, modules only to load, and cells of the exercises to
        rehearse.
    gpu : str
        `gpu` if guests may use one.
    plain : str, optional
        `PLAIN` if this program has started itself again, without rehearsals.
    """
    channels = socket.socket(fileno=int(descriptor))
    modules, others = json.loads(imports), json.loads(load_only)
    has_gpu, is_plain = gpu == "gpu", plain == PLAIN
    os.environ["HOME"] = os.environ["MPLCONFIGDIR"] = SCRATCH
    os.chdir(SCRATCH)
    linux.keep_memory()
    gc.disable()  # until everything is loaded, there is no garbage
    if is_plain:  # a package that a course adds may start threads as it is imported
        others = [name for name in others if _is_torch(name)]
    try:
        rehearse = not (has_gpu or is_plain)
        serve = warm(modules, others, rehearse, json.loads(rehearsals))
        filter_program = seccomp.filter_program()
        if threads := _threads():
            # A rehearsal may start threads where imports alone do not: start again without. Guests
            # then load late what it would have loaded.
            if not is_plain:
                print(
                    f"started again without rehearsals, which started threads: {threads}",
                    file=sys.stderr,
                    flush=True,
                )
                os.set_inheritable(channels.fileno(), True)
                os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], PLAIN])  # noqa: S606 (this program, again)
            raise RuntimeError(
                f"a module that was loaded in advance has started threads: {threads}"
            )
    except Exception as error:  # each worker that asks for guests gets the reason
        for _, (worker,) in received(channels, 1):
            worker.send(f"{type(error).__name__}: {error}".encode()[:MOST_MESSAGE])
        raise
    gc.enable()
    gc.collect()
    gc.freeze()
    large_pages()
    # Each search for garbage writes to memory that guest and parent share until then.
    gc.set_threshold(20_000, 20, 20)
    os.environ.update(HOME=SCRATCH, TMPDIR=f"{SCRATCH}/.tmp")
    # keepers that have ended leave nothing to wait for
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for asked, (worker,) in received(channels, 1):
        if os.fork() == 0:
            channels.close()
            serve_channel(serve, worker, filter_program, has_gpu, json.loads(asked)["core"])
            os._exit(0)
        worker.close()
