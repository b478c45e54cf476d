"""Where guests come from: a warm parent inside bubblewrap, or (without a sandbox) an ordinary process.

`Nursery.guest()` and `Bare.guest()` return a `Guest`: the judge's end of the wire.
"""

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import psutil

from autograder.guest import wire

PROGRAM = Path(__file__).parent / "guest"
INSIDE = "/guest"
NOBODY = "65534"
START_SECONDS = 180
PATIENCE = 60  # seconds for an answer that takes none: on a busy machine, a process may wait long for its turn
TICK = 0.1


class Ended(Exception):
    """The guest is gone; the message says why. `kind` is limit or hostile."""

    ended = True

    def __init__(self, message, kind="limit"):
        super().__init__(message)
        self.kind = kind


def missing():
    """Return what this machine lacks for the sandbox, each with its mend; an empty list if nothing."""
    if sys.platform != "linux":
        return ["grading in a sandbox needs Linux"]
    lacks = []
    if not shutil.which("bwrap"):
        lacks.append("bubblewrap is not installed (Debian and Ubuntu: apt install bubblewrap)")
    if os.getuid() == 0 and not shutil.which("setpriv"):
        lacks.append("setpriv is not installed (Debian and Ubuntu: apt install util-linux)")
    try:
        import pyseccomp  # noqa: F401
    except (ImportError, RuntimeError, OSError):
        lacks.append("libseccomp is not installed (Debian and Ubuntu: apt install libseccomp2)")
    if lacks:
        return lacks
    with tempfile.TemporaryDirectory() as folder:
        probe = "import ctypes; raise SystemExit(ctypes.CDLL(None).unshare(0x30020000))"
        run = subprocess.run(
            _command([sys.executable, "-I", "-c", probe], [folder]), capture_output=True, text=True, timeout=60
        )
    if run.returncode:
        said = run.stderr.strip().splitlines()[-1:] or ["namespaces inside bubblewrap are refused"]
        lacks.append(
            f"the kernel refuses namespaces to this user ({said[0]}); allow them with "
            "sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000, and on Ubuntu "
            "kernel.apparmor_restrict_unprivileged_userns=0"
        )
    return lacks


def _paths():
    """Return the folders that a guest may read: the system, and this Python with its packages."""
    paths = [Path("/usr")]
    for own in {sys.base_prefix, sys.prefix, *(sysconfig.get_paths()[name] for name in ("purelib", "platlib"))}:
        path = Path(own)
        if not any(path == other or other in path.parents for other in paths):
            paths.append(path)
    return [path for path in paths if not any(other in path.parents for other in paths if other != path)]


def _system():
    """Return bubblewrap's arguments for a read-only view of the system and of this Python."""
    binds = []
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(name):
            binds += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            binds += ["--ro-bind", name, name]
    for path in _paths():
        binds += ["--ro-bind", str(path), str(path)]
    for name in ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "fonts", "localtime", "nsswitch.conf"):
        binds += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return [*binds, "--ro-bind-try", "/sys/devices/system/cpu", "/sys/devices/system/cpu"]


def _command(command, hidden):
    """Return `command` in its sandbox: nothing of the folders `hidden`, read-only system, no network, no processes.

    As root, the same sandbox is entered as nobody, because no limit on processes binds root.
    """
    paths = _paths()
    covered = [str(Path(name).resolve()) for name in hidden]
    covered = [name for name in covered if any(path in Path(name).parents for path in paths)]
    devices = [str(device) for device in sorted(Path("/dev").glob("nvidia*"))]
    inner = [
        "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--hostname", "guest",
        *_system(), *(part for name in covered for part in ("--tmpfs", name)), "--ro-bind", str(PROGRAM), INSIDE,
        "--proc", "/proc", "--dev", "/dev", *(part for name in devices for part in ("--dev-bind-try", name, name)),
        "--tmpfs", "/scratch", "--dir", "/scratch/.tmp", "--chdir", "/scratch", *_environment(),
    ]  # fmt: skip
    if not any(path.is_relative_to("/tmp") for path in paths):
        inner += ["--symlink", "scratch/.tmp", "/tmp"]
    inner += ["--remount-ro", "/dev", "--remount-ro", "/"]  # what one guest could leave there, the next could read
    if os.getuid():
        return [*inner, *command]
    return as_nobody([*inner, *command], read=[PROGRAM])


def as_nobody(command, read=(), write=()):
    """Return a command that root runs as nobody, with a view of the system, of this Python, and of these folders."""
    binds = [*_system(), *(part for path in read for part in ("--ro-bind", str(path), str(path)))]
    binds += [part for path in write for part in ("--bind", str(path), str(path))]
    parents = ["/tmp"]  # where the inner bubblewrap puts its new root together
    for path in (name for name in binds if name.startswith("/")):
        for parent in reversed(Path(path).parents):
            if str(parent) not in ("/", "/usr", *parents):
                parents.append(str(parent))
    return [
        "bwrap", "--die-with-parent", *(part for name in parents for part in ("--perms", "0755", "--dir", name)),
        *binds, "--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc",
        "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID",
        "setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps=-all", "--", *command,
    ]  # fmt: skip


def _environment():
    own = {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/scratch",
        "USER": "student",
        "LANG": "C.UTF-8",
        "TZ": os.environ.get("TZ", "UTC"),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }
    return [part for name, value in own.items() for part in ("--setenv", name, value)]


class Guest:
    """The judge's end of the wire to one guest.

    Parameters
    ----------
    connection : socket
    limits : dict
    usage : callable
        `usage()` returns what the guest uses now: a dict with `cpu` and `idle` (seconds), or with `ended`, why it is
        gone.
    stop : callable
        Ends the guest and everything that it started.
    """

    def __init__(self, connection, limits, usage, stop):
        self.connection, self.limits, self.usage, self.stop = connection, limits, usage, stop
        self.ended, self.received = None, 0
        connection.setblocking(False)

    def request(self, message, blobs=(), on_output=lambda output: None, on_callback=None):
        """Send a request and return the reply with its blobs.

        Raises
        ------
        Ended
            If the guest is gone, goes beyond a limit, or sends what no honest guest sends.
        """
        if self.ended:
            raise self.ended
        try:
            self._send(wire.pack(message, blobs))
            self.received = 0
            start, clock = None, time.monotonic()
            while True:
                frame = self._frame()
                while frame is None:
                    ready, _, _ = select.select([self.connection], [], [], TICK)
                    if not ready or time.monotonic() - clock > 1:
                        clock = time.monotonic()
                        start = self._within(start)
                    frame = self._frame() if ready else None
                answer, data = frame
                kind = answer.get("op")
                if kind == "output":
                    on_output(answer.get("output"))
                elif kind == "callback" and on_callback:
                    self._send(on_callback(answer, data))
                elif kind == "done":
                    return answer, data
                else:
                    raise wire.Violation("a message of no known kind")
        except wire.Violation as error:
            raise self.fail(f"on the wire to the judge came {error}: a forged reply.", "hostile") from None
        except (ConnectionError, BrokenPipeError):
            raise self.fail(self._epitaph()) from None

    def close(self):
        """End the guest."""
        if self.ended is None:
            self.ended = Ended("the run is over.")
        self.stop()
        self.connection.close()

    def fail(self, message, kind="limit"):
        """End the guest; return the `Ended` to raise."""
        self.ended = Ended(message, kind)
        self.stop()
        return self.ended

    def _send(self, frame):
        view = memoryview(frame)
        while view:
            try:
                view = view[self.connection.send(view) :]
            except BlockingIOError:
                if not select.select([], [self.connection], [], 3 * self.limits["idle_seconds"])[1]:
                    raise self.fail("Python did not answer any more.") from None

    def _frame(self):
        """Return a whole frame, or None if none has begun to come."""
        head = self._some(wire.HEAD.size, wait=False)
        if head is None:
            return None
        text, size = wire.lengths(head)
        return wire.unpack(self._some(text), self._some(size))

    def _some(self, size, wait=True):
        """Read exactly `size` bytes; None if `wait` is false and there is none yet."""
        if not size:
            return b""
        data = bytearray(size)
        view, got, waited = memoryview(data), 0, time.monotonic()
        while got < size:
            try:
                count = self.connection.recv_into(view[got:])
            except BlockingIOError:
                if not got and not wait:
                    return None
                select.select([self.connection], [], [], TICK)
                if time.monotonic() - waited > 3 * self.limits["idle_seconds"]:
                    raise wire.Violation("half a message") from None
                continue
            if not count:
                raise ConnectionResetError
            got += count
            self.received += count
            if self.received > 8 * wire.MOST_BYTES:
                raise self.fail("it sent more than can be taken.")
        return bytes(data)

    def _within(self, start):
        """Compare what the guest uses with the limits; return what it used at the start of this request."""
        now = self.usage()
        if "ended" in now:
            raise self.fail(self._epitaph(now))
        start = start or now
        limits = self.limits
        if now["cpu"] - start["cpu"] > limits["cpu_seconds"]:
            raise self.fail(f"it computed for more than {limits['cpu_seconds']:g} seconds.")
        if now["cpu"] > limits["cpu_seconds_in_all"]:
            raise self.fail(f"the notebook computed for more than {limits['cpu_seconds_in_all']:g} seconds in all.")
        if now["idle"] - start["idle"] > limits["idle_seconds"]:
            raise self.fail(f"it waited for more than {limits['idle_seconds']:g} seconds, and nothing ran.")
        return start

    def _epitaph(self, last=None):
        """Return why the guest is gone, as far as its keeper knows."""
        # One that lives after a hundred answers has only cut the wire; one that ends may be long at it.
        for _ in range(100):
            if last and "ended" in last:
                break
            last = self.usage()
            time.sleep(0.02)
        cause, code = (last or {}).get("ended"), (last or {}).get("code")
        if cause == "memory":
            return f"it took more than {self.limits['memory_mb']} MB of memory."
        if cause == "signal":
            with contextlib.suppress(ValueError):
                return f"it ended Python itself, by {signal.Signals(code).name}."
        if cause == "exit":
            return f"it ended Python itself, with status {code}."
        if cause == "sandbox":
            raise RuntimeError(f"the sandbox could not be made: {last.get('text')}")
        return "it ended Python itself."


class Nursery:
    """A warm parent in its sandbox, which forks guests for any number of workers.

    Parameters
    ----------
    limits : dict
    imports : sequence of str
        Modules to load beforehand.
    hidden : sequence of str
        Folders that no guest may see, wherever they lie.
    """

    def __init__(self, limits, imports=(), hidden=()):
        self.limits = limits
        self.settings = json.dumps({"imports": list(imports), "limits": limits})
        self.hidden = [str(path) for path in hidden]
        self.process = self.own = self.last = None

    def start(self):
        """Start the warm parent, if it does not run yet; it warms up while other things are done."""
        if self.process and self.process.poll() is None:
            return
        self.close()
        self.own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-s", f"{INSIDE}/parent.py", str(theirs.fileno()), self.settings]
        self.process = subprocess.Popen(
            _command(command, self.hidden), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=self.log, cwd="/",
        )  # fmt: skip
        theirs.close()

    def lane(self):
        """Return a worker's own way to guests: a socket for `Lane`, which can be sent to another process."""
        self.start()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            socket.send_fds(self.own, [b"lane"], [theirs.fileno()])
        except OSError:
            raise RuntimeError(f"the sandbox did not start: {self.said()}") from None
        theirs.close()
        return ours

    def guest(self):
        """Return a new `Guest`, for whoever needs only one at a time."""
        if self.last is None or self.process is None or self.process.poll() is not None:
            self.last = Lane(self.lane(), self.limits)
        try:
            return self.last.guest()
        except RuntimeError as error:
            self.last = None
            raise RuntimeError(f"{error} {self.said()}") from None

    def said(self):
        """Return the last line that the warm parent wrote before it ended, or an empty string."""
        if not self.process or self.process.poll() is None:
            return ""
        self.log.seek(0)
        return " ".join(self.log.read().decode("utf-8", "replace").strip().splitlines()[-1:])

    def close(self):
        """End the warm parent, and whatever it started."""
        if self.last:
            self.last.close()
            self.last = None
        if self.process:
            self.process.kill()
            self.process.wait()
            self.own.close()
            self.process = None


class Lane:
    """A worker's own way to guests, one at a time."""

    def __init__(self, connection, limits):
        self.connection, self.limits, self.warm = connection, limits, False
        connection.settimeout(START_SECONDS)

    def start(self):
        """Do nothing: the warm parent runs already."""

    def guest(self):
        """Return a new `Guest`; wait until the warm parent is warm."""
        ours, theirs = socket.socketpair()
        control, keepers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            if not self.warm and self.connection.recv(16) != b"warm":
                raise RuntimeError("the sandbox did not start.")
            self.warm = True
            socket.send_fds(self.connection, [b"guest"], [theirs.fileno(), keepers.fileno()])
        except OSError as error:
            raise RuntimeError(f"the sandbox is gone: {error}.") from None
        theirs.close()
        keepers.close()
        own = Guest(ours, self.limits, _Asked(control), control.close)
        _ready(own)
        return own

    def close(self):
        """Give the lane up."""
        self.connection.close()


class _Asked:
    """Asks a keeper what its guest uses."""

    def __init__(self, control):
        self.control, self.last = control, None
        control.settimeout(PATIENCE)

    def __call__(self):
        if self.last:
            return self.last
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionError):
                self.control.send(b"?")
            try:
                heard = self.control.recv(4096)
            except ConnectionResetError:  # it ended with the question unread; what it said last comes after this
                heard = self.control.recv(4096)
            said = json.loads(heard or b'{"ended": "gone"}')
        except (OSError, ValueError):
            said = {"ended": "gone"}
        if "ended" in said:
            self.last = said
        return said


class Bare:
    """Guests without a sandbox: each an ordinary process with your own rights, on any system."""

    def __init__(self, limits):
        self.limits, self.running = limits, None

    def start(self):
        """Start the next guest beforehand."""
        if self.running is None:
            self.running = self._started()

    def guest(self):
        """Return a new `Guest`."""
        self.start()
        (listener, process, token, folder), self.running = self.running, None
        listener.settimeout(START_SECONDS)
        try:
            connection, _ = listener.accept()
            connection.settimeout(10)
            if connection.recv(len(token), socket.MSG_WAITALL) != token:
                raise RuntimeError("another program answered in place of the guest")
        except OSError as error:
            process.kill()
            raise RuntimeError(f"Python did not start for the notebook: {error}") from None
        finally:
            listener.close()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own = Guest(connection, self.limits, _Watched(process), lambda: _end_tree(process, folder))
        _ready(own)
        return own

    def close(self):
        """End a guest that was started and not asked for."""
        if self.running:
            listener, process, _, folder = self.running
            listener.close()
            _end_tree(process, folder)
            self.running = None

    def _started(self):
        listener = socket.create_server(("127.0.0.1", 0))
        token = secrets.token_hex(16)
        folder = tempfile.mkdtemp(prefix="guest-")
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM / "shell.py"), f"127.0.0.1:{listener.getsockname()[1]}:{token}"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=os.name == "posix",
            env={**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"},
        )
        return listener, process, token.encode(), folder


class _Watched:
    """Tells what an ordinary process and its children use."""

    def __init__(self, process):
        self.process, self.idle, self.seen, self.cpu = process, 0.0, time.monotonic(), 0.0

    def __call__(self):
        now, code = time.monotonic(), self.process.poll()
        if code is not None:
            return {"ended": "signal" if code < 0 else "exit", "code": abs(code)}
        cpu, running = 0.0, False
        try:
            top = psutil.Process(self.process.pid)
            for own in [top, *top.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    times = own.cpu_times()
                    cpu += times.user + times.system
                    running |= own.status() in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
        except psutil.Error:
            pass
        if not running and cpu <= self.cpu:
            self.idle += now - self.seen
        self.cpu, self.seen = max(cpu, self.cpu), now
        return {"cpu": self.cpu, "idle": self.idle}


def _end_tree(process, folder):
    with contextlib.suppress(psutil.Error):
        for own in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                own.kill()
    if os.name == "posix":
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def _ready(guest):
    """Wait until a guest says that it can begin."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            frame = guest._frame()
        except (ConnectionError, wire.Violation):
            raise RuntimeError(f"a guest did not start: {guest._epitaph()}") from None
        if frame:
            return
        select.select([guest.connection], [], [], TICK)
        said = guest.usage()
        if "ended" in said:
            raise RuntimeError(f"a guest did not start: {guest._epitaph(said)}")
    raise RuntimeError("a guest did not start in time")
