"""The sandbox: what is counted of a guest, what a submission may use in all, and what the kernel
does for a guest.
"""

import collections
import contextlib
import errno
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pyseccomp
import pytest
import torch

from autograder.course.limits import Limits
from autograder.grades.results import Kind
from autograder.sandbox import bubblewrap, guests
from autograder.sandbox.budget import Budget, Meter
from autograder.sandbox.guest import ASK_SECONDS, CHUNK, Ended, Guest
from autograder.sandbox.inside import keeper, seccomp, stand_ins, wire
from autograder.sandbox.inside.tally import MOST_DISK_SECONDS, Look, Tally

LIMITS = Limits(cpu_seconds=5, idle_seconds=2, idle_seconds_in_all=5, memory_mb=1000)


# What a look at the processes adds.


def tallied(looks, longest=0.1, elapsed=0.05):
    """Return a tally of looks, each so long after the last; one more look shows that nothing
    changed.
    """
    tally = Tally(longest)
    for look in looks:
        tally.add(look, elapsed)
    return tally


def test_time_in_which_nothing_runs_is_idle_and_computing_is_not():
    assert tallied([Look(0, running=False)] * 10).idle == pytest.approx(0.5)
    assert tallied([Look(0, running=True)] * 10).idle == 0
    busy = tallied([Look(0.05 * step, running=False) for step in range(11)])
    assert busy.cpu == pytest.approx(0.45)  # the last look counts at the next
    assert busy.idle == pytest.approx(0.1)


def test_a_process_that_wakes_for_moments_is_idle_for_the_rest_of_the_time():
    ticking = tallied([Look(0.01 * step, running=False) for step in range(101)])
    assert ticking.cpu == pytest.approx(1.0, abs=0.03)
    assert ticking.idle == pytest.approx(4.0, abs=0.1)


@pytest.mark.parametrize(("work", "runs"), [("while True: pass", True), ("time.sleep(99)", False)])
def test_a_main_thread_that_waits_for_another_one_is_not_idle_while_that_runs(work, runs):
    text = f"import threading, time\ndef work():\n    {work}\n"
    text += "thread = threading.Thread(target=work)\nthread.start()\nprint(1, flush=True)\nthread.join()"
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        time.sleep(0.2)
        looks = [keeper._has_running_thread(str(process.pid)) for _ in range(20)]
        process.kill()
    assert sum(looks) >= 15 if runs else sum(looks) <= 5


def test_a_keeper_that_was_stopped_counts_no_idle_time_for_it():
    assert tallied([Look(0, running=False)], elapsed=12).idle == pytest.approx(0.1)


def test_waiting_for_a_disk_is_no_idling_but_not_without_end():
    tally = tallied(
        [Look(0, running=False, waits_for_disk=True)] * int(MOST_DISK_SECONDS / 0.05 + 40)
    )
    assert tally.idle == pytest.approx(2.0, abs=0.1)


def test_seconds_seen_twice_or_not_at_all_for_one_look_are_counted_once():
    assert tallied([Look(cpu, True) for cpu in (1, 1, 1, 2, 1, 1, 1)]).cpu == 1
    assert tallied([Look(cpu, True) for cpu in (1, 1, 1, 0, 1, 1, 1)]).cpu == 1


def test_seconds_of_orphaned_processes_stay_counted():
    assert tallied([Look(cpu, True) for cpu in (3, 3, 3, 0, 0, 0, 1, 1)]).cpu == 4


def test_processes_that_came_and_went_between_two_looks_count_as_computing():
    tally = tallied([Look(0, running=False, has_new=True)] * 20)
    assert tally.cpu == pytest.approx(1.0) and tally.idle == 0
    assert (
        tallied([Look(0.01 * step, running=False, has_new=True) for step in range(1, 22)]).cpu
        < 0.21
    )


# What a submission may use in all.


def test_only_what_the_judge_waited_for_is_idle_time_of_the_submission():
    meter = Meter(Budget(LIMITS))
    meter.begin()
    meter.waited(0.1)
    assert not meter.look({"cpu": 0, "idle": 0.1})
    meter.begin()  # for ten seconds the judge did other things
    meter.waited(0.1)
    assert not meter.look({"cpu": 0, "idle": 10.2})
    assert meter.budget.idle == pytest.approx(0.2)


def test_a_cell_and_a_submission_have_limits_of_idle_time():
    budget = Budget(LIMITS)
    first, second = Meter(budget), Meter(budget)  # a guest, and the one after it

    def sleeps(meter, idle, seconds):
        meter.begin()
        for step in range(int(seconds / 0.1)):
            meter.waited(0.1)
            if beyond := meter.look({"cpu": 0, "idle": idle + 0.1 * (step + 1)}):
                return str(beyond)
        return ""

    assert "idle for more than 2 seconds" in sleeps(first, 0, 2.5)
    assert not sleeps(second, 0, 1.9)
    assert "in all" in sleeps(second, 1.9, 1.9)
    assert "idle for more than 5 seconds in all" in str(budget.spent())


def test_computing_is_added_up_over_guests():
    budget = Budget(replace(LIMITS, cpu_seconds_in_all=6))
    assert not Meter(budget).look({"cpu": 4, "idle": 0})
    assert "in all" in str(Meter(budget).look({"cpu": 4, "idle": 0}))


def test_a_spent_budget_gets_no_guest():
    budget = Budget(LIMITS)
    budget.wall = LIMITS.wall_seconds_in_all + 1
    with pytest.raises(Ended, match="in all"):
        guests.UnsandboxedGuests(LIMITS).guest(budget)


# The wire.


def against(send, usage, limits=LIMITS):
    """Return a judge's guest; `send(socket)` is what its other end does."""
    ours, theirs = socket.socketpair()
    threading.Thread(target=send, args=(theirs,), daemon=True).start()
    guest = Guest(ours, limits, usage, lambda: None)
    guest.other = theirs
    return guest


class Idling:
    """Tells of a guest in which nothing runs: as much idle time as has passed."""

    def __init__(self):
        self.start = time.monotonic()

    def __call__(self):
        return {"cpu": 0.0, "idle": time.monotonic() - self.start}


def test_a_slowly_sent_frame_is_idle_time():
    def drops(theirs):
        frame = wire.HEAD.pack(1000, 0) + b"{" * 1000
        for index in range(len(frame)):
            with contextlib.suppress(OSError):  # the judge has hung up
                theirs.send(frame[index : index + 1])
            threading.Event().wait(0.05)

    guest = against(drops, Idling(), replace(LIMITS, idle_seconds=1))
    guest._asked = -ASK_SECONDS
    with pytest.raises(Ended, match="idle for more than 1 seconds") as caught:
        guest.request({"op": "cell"})
    assert caught.value.kind == Kind.LIMIT


@pytest.mark.parametrize("size", [1, 7, wire.HEAD.size, 1000, CHUNK])
def test_frames_are_separated_however_they_are_cut(size):
    numbers = range(40)
    frames = [
        wire.pack({"op": "output", "output": number}, [bytes([number]) * number])
        for number in numbers
    ]
    # What the guest sends ahead is kept for the next request.
    sent = b"".join(
        [
            *frames[:20],
            wire.pack({"op": "done"}, [b"first"]),
            *frames[20:],
            wire.pack({"op": "done"}),
        ]
    )

    def in_pieces(theirs):
        for start in range(0, len(sent), size):
            theirs.sendall(sent[start : start + size])

    guest = against(in_pieces, lambda: {"cpu": 0.0, "idle": 0.0})
    arrived = []
    answer, data = guest.request({"op": "cell"}, on_output=arrived.append)
    assert answer == {"op": "done"} and [bytes(part) for part in data] == [b"first"]
    assert arrived == list(numbers[:20])
    assert guest.request({"op": "cell"}, on_output=arrived.append) == ({"op": "done"}, [])
    assert arrived == list(numbers)
    guest.close()


def test_outputs_without_end_are_bounded():
    frame = wire.pack({"op": "output", "output": {}}, [bytes(1 << 20)])

    def floods(theirs):
        try:
            while True:
                theirs.sendall(frame)
        except OSError:
            pass

    guest = against(floods, lambda: {"cpu": 0.0, "idle": 0.0}, replace(LIMITS, received_mb=20))
    with pytest.raises(Ended, match="sent more than the judge accepts"):
        guest.request({"op": "cell"})
    assert guest.budget.received < 22 << 20
    guest.close()


def test_a_judge_that_was_stopped_has_not_waited(monkeypatch):
    clock, stops = [0.0], iter([12.0, 12.0, 0.1])

    def wait(*_):
        clock[0] += next(stops, 0.1)
        if clock[0] > 24.05:
            guest.other.send(wire.pack({"op": "done"}))
        return [], [], []

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(select, "select", wait)
    guest = against(lambda theirs: None, Idling())
    assert guest.request({"op": "cell"})[0] == {"op": "done"}
    assert guest.budget.idle < 1 and guest.budget.wall < 1


def test_a_message_that_the_judge_cannot_handle_ends_its_guest():
    def fails(output):
        raise RecursionError

    guest = against(
        lambda theirs: theirs.send(wire.pack({"op": "output"})), lambda: {"cpu": 0.0, "idle": 0.0}
    )
    with pytest.raises(Ended, match="cannot be read"):
        guest.request({"op": "cell"}, on_output=fails)
    assert guest.ended


# The list of system calls.

REFUSED = (
    "acct add_key bpf chroot clock_adjtime clock_settime create_module delete_module "
    "fanotify_init finit_module fsconfig fsmount fsopen fspick get_kernel_syms init_module "
    "io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load "
    "keyctl landlock_create_ruleset lookup_dcookie mbind memfd_create memfd_secret migrate_pages "
    "mount mount_setattr move_mount move_pages mq_open msgget name_to_handle_at nfsservctl "
    "open_by_handle_at open_tree perf_event_open personality pidfd_getfd pivot_root "
    "process_madvise process_vm_readv process_vm_writev ptrace quotactl quotactl_fd reboot "
    "request_key sched_setattr semget setdomainname sethostname setns settimeofday shmget swapoff "
    "swapon syslog umount umount2 unshare uselib userfaultfd vhangup clone3 mq_timedsend msgsnd "
    "semop shmat"
).split()


def test_the_list_allows_nothing_that_is_refused():
    allowed = set(seccomp.allowed_names())
    assert (
        not allowed & {*REFUSED, *seccomp.REFUSED, *seccomp.WITH_ARGUMENTS} and len(allowed) > 250
    )


def test_the_list_is_made_from_a_profile():
    profile = {
        "syscalls": [
            {"names": ["read", "ptrace", "clone"], "action": "SCMP_ACT_ALLOW"},
            {"names": ["write"], "action": "SCMP_ACT_ERRNO"},
            {"names": ["bpf"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_BPF"]}},
            {
                "names": ["arch_prctl"],
                "action": "SCMP_ACT_ALLOW",
                "includes": {"arches": ["amd64"]},
            },
            {
                "names": ["s390_runtime_instr"],
                "action": "SCMP_ACT_ALLOW",
                "includes": {"arches": ["s390x"]},
            },
            {"names": ["personality"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0}]},
        ]
    }
    assert seccomp.names_of(profile) == ["arch_prctl", "fchmodat2", "read"]


def test_a_rule_that_cannot_be_made_is_an_error(monkeypatch):
    monkeypatch.setattr(seccomp, "_known", lambda library: {"socket": -1})
    with pytest.raises(seccomp.NotPossible, match="socket"):
        seccomp.filter_program()


# Inside.


@pytest.fixture(scope="module")
def pool(isolated):
    """A warm parent."""
    source = guests.GuestPool(LIMITS, ["torch"])
    yield source
    source.close()


@pytest.fixture
def guest(pool):
    """A guest that has begun."""
    guest = pool.guest()
    guest.request({"op": "start", "seed": 1, "files": []})
    yield guest
    guest.close()


def shown(guest, source):
    """Run a cell; return what it printed, and its exception."""
    outputs = []
    guest.request({"op": "cell"}, [source.encode()], on_output=outputs.append)
    return "".join(output.get("text", output.get("evalue", "")) for output in outputs)


def test_guests_of_a_worker_keep_to_its_core(pool):
    core = max(os.sched_getaffinity(0))
    source = "import os\nprint(sorted(os.sched_getaffinity(0)))"
    for cores, expected in ((core, [core]), (None, sorted(os.sched_getaffinity(0)))):
        channel = guests.Channel(pool.channel(cores), LIMITS)
        guest = channel.guest()
        assert shown(guest, source).strip() == str(expected)
        guest.close()
        channel.close()


def test_what_only_submissions_import_is_loaded_and_no_more(isolated):
    pool = guests.GuestPool(LIMITS, ["numpy"], load_only=["torch"])
    try:
        guest = pool.guest()
        assert (
            shown(guest, "import sys\nprint('torch' in sys.modules, 'sympy' in sys.modules)")
            == "True False\n"
        )
        guest.close()
    finally:
        pool.close()


def test_torch_draws_what_the_seed_says(pool):
    def draws(seed):
        guest = pool.guest()
        guest.request({"op": "start", "seed": seed, "files": []})
        output = shown(guest, "import torch\nprint(torch.rand(3).tolist(), torch.initial_seed())")
        guest.close()
        return output

    assert draws(1) == draws(1) != draws(2)
    torch.manual_seed(1)
    assert draws(1) == f"{torch.rand(3).tolist()} {torch.initial_seed()}\n"


def test_what_is_refused_is_refused_inside(guest):
    numbers = {}
    for name in REFUSED:
        number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
        if number >= 0:
            numbers[name] = number
    source = (
        "import ctypes, json\nlibc = ctypes.CDLL(None, use_errno=True)\nfound = {}\n"
        f"for name, number in {numbers}.items():\n"
        "    found[name] = libc.syscall(number, 0, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno()\n"
        "print(json.dumps(found))"
    )
    environment = json.loads(shown(guest, source))
    assert len(environment) > 60
    assert not {
        name: code for name, code in environment.items() if code not in (errno.EPERM, errno.ENOSYS)
    }
    assert environment["ptrace"] == errno.EPERM and environment["clone3"] == errno.ENOSYS


NETWORK = """
import socket
import subprocess
import sys
for family in range(70):
    for make in (socket.socket, socket.socketpair):
        try:
            make(family, socket.SOCK_STREAM)
        except OSError:
            continue
        print(int(family), make.__name__)
one, other = socket.socketpair()
one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
print("buffer", one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < 1 << 19)
other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
client.send(b"hello")
print(server.accept()[0].recv(5))
"""


def test_sockets_stay_within_the_namespace_and_keep_their_buffers(guest):
    lines = shown(guest, NETWORK).splitlines()
    assert {line for line in lines if line[0].isdigit()} <= {
        "1 socket",
        "1 socketpair",
        "2 socket",
        "10 socket",
    }
    assert "1 socketpair" in lines and "buffer True" in lines and "b'hello'" in lines


NORMAL = {
    "subprocess": "import subprocess\nprint(subprocess.run(['ls', '/'], "
    "capture_output=True).returncode, 'done')",
    "spawn": (
        "import multiprocessing as mp\nif __name__ == '__main__':\n"
        "    p = mp.get_context('spawn').Process(target=print, args=('x',)); p.start(); "
        "p.join()\nprint('done')"
    ),
    "pool": "import multiprocessing as mp\nwith mp.get_context('fork').Pool(2) as p: "
    "print(p.map(abs, [-1]), 'done')",
    "executor": (
        "from concurrent.futures import ThreadPoolExecutor as T\n"
        "with T(3) as t: print(list(t.map(abs, [-1])), 'done')"
    ),
    "asyncio": "import asyncio\nawait asyncio.sleep(0.01)\nprint('done')",
    "files": (
        "import os, pathlib, shutil, tempfile\np = pathlib.Path('a'); p.write_text('x'); "
        "p.chmod(0o600)\n"
        "os.utime(p)\n"
        "os.symlink('a', 'b'); shutil.copy('a', 'c'); os.rename('c', 'd'); os.truncate('d', 0); "
        "os.mkfifo('e')\n"
        "tempfile.TemporaryFile().write(b'x'); print(os.statvfs('.').f_bsize, "
        "os.stat('b').st_size, 'done')"
    ),
    "sqlite": "import sqlite3\nsqlite3.connect('x.db').execute('create table t "
    "(a)')\nprint('done')",
    "mmap": "import mmap\nm = mmap.mmap(-1, 1 << 20); m[0] = 1; print('done')",
    "shared memory": (
        "from multiprocessing import shared_memory as s\nm = s.SharedMemory(create=True, "
        "size=99); m.close()\n"
        "m.unlink()\n"
        "print('done')"
    ),
    "signals": "import signal\nsignal.setitimer(signal.ITIMER_REAL, "
    "5)\nsignal.alarm(0)\nprint('done')",
    "numpy and torch": (
        "import numpy as np, torch\ntorch.set_num_threads(2)\n"
        "a = torch.randn(300, 300, requires_grad=True); (a @ a).sum().backward()\n"
        "np.linalg.svd(np.ones((50, 50))); print('done')"
    ),
    "matplotlib": "import matplotlib.pyplot as plt\nplt.plot([1]); plt.savefig('a.png'); "
    "print('done')",
    "time": "import time, os\ntime.sleep(0.01); os.times(); os.sched_getaffinity(0)\nprint('done')",
}


@pytest.mark.parametrize("name", NORMAL)
def test_what_notebooks_do_is_allowed(guest, name):
    assert "done" in shown(guest, NORMAL[name])


BRIEF = """
import os, time
for _ in range(20):
    if os.fork() == 0:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass
        os._exit(0)
    os.wait()
time.sleep(0.3)
"""


def test_brief_children_are_counted(guest):
    before = guest.usage()["cpu"]
    shown(guest, BRIEF)
    assert guest.usage()["cpu"] - before > 0.3


def test_a_process_in_vfork_is_idle_after_a_while(guest):
    with pytest.raises(Ended, match="it was idle"):
        shown(
            guest,
            "import ctypes\nlibc = ctypes.PyDLL(None)\nif libc.vfork() == 0:\n    "
            "libc.sleep(60)\n    libc._exit(0)",
        )
    assert guest.budget.wall < 30


def test_a_shared_map_is_memory(guest):
    with pytest.raises(Ended, match="more than 1000 MB of memory"):
        shown(
            guest,
            "import mmap, time\nm = mmap.mmap(-1, 1600 << 20)\n"
            "for _ in range(1600): m.write(bytes(1 << 20))\ntime.sleep(20)",
        )


def test_what_a_cell_used_and_gave_back_does_not_count_for_the_next(guest):
    used = (
        "[line for line in open('/proc/self/status') if line.startswith('RssAnon')][0].split()[1]"
    )
    shown(guest, "import numpy as np\nkept = [np.ones(12_500_000) for _ in range(8)]")
    full = int(shown(guest, f"print({used})").split()[-1])
    empty = int(shown(guest, f"del kept\nprint({used})").split()[-1])
    assert full - empty > 780_000


def test_memory_that_the_warm_parent_shares_does_not_count(guest):
    """A function that takes nearly all that it may have is not ended; one that takes more has an
    error.
    """
    shown(
        guest,
        "import numpy as np\ndef take(n):\n    return len([np.ones(1 << 17) for _ in "
        "range(n)])  # n MB",
    )
    assert shown(guest, "print(take(900))") == "900\n"
    assert "Unable to allocate" in shown(guest, "take(1100)")
    assert shown(guest, "print('alive')") == "alive\n"


@pytest.mark.parametrize(
    ("then", "signals"),
    [(1200, [signal.SIGSTOP]), (800, [signal.SIGSTOP, signal.SIGCONT])],
    ids=["held", "given-back"],
)
def test_a_guest_is_stopped_before_a_limit_is_reported(monkeypatch, then, signals):
    sent = []
    monkeypatch.setattr(keeper.os, "kill", lambda pid, number: sent.append((pid, number)))
    processes = SimpleNamespace(memory_in_detail=lambda most: then if sent else 1200)
    assert keeper._stopped_if_still_beyond(processes, 1000) == (then > 1000)
    assert sent == [(-1, number) for number in signals]


def test_signals_to_process_1_do_nothing(guest):
    text = (
        "import os, time\nfor n in range(1, 65):\n    try: os.kill(1, n)\n    except OSError: "
        "pass\ntime.sleep(0.2)"
    )
    shown(guest, text)
    assert "alive" in shown(guest, "print('alive')")


def test_a_module_of_the_students_may_have_the_name_of_one_of_ours(guest):
    text = "open('kernel.py', 'w').write('x = 5')\nimport kernel\nprint('x is', kernel.x)"
    assert "x is 5" in shown(guest, text)


def test_everything_that_is_used_is_probed(isolated):
    assert bubblewrap.missing() == []


def test_a_sandbox_that_does_not_start_in_time_is_one_line(isolated, monkeypatch):
    # The probe is not started: whoever kills it as it starts leaves its child alone.
    probe = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(bubblewrap, "command", lambda program, folders: probe)
    monkeypatch.setattr(bubblewrap, "PROBE_SECONDS", 0.1)
    (line,) = bubblewrap.missing()
    assert line.startswith("the sandbox did not start in 0.1 seconds")


def test_a_named_tuple_reaches_the_courses_answer_as_a_tuple():
    pair = collections.namedtuple("pair", "a b")
    asked = []
    stand_in = stand_ins.stand_in("f", "function", lambda *request: asked.append(request) or 7)
    assert stand_in(pair(1, torch.ones(2))) == 7
    assert "pair" not in str(asked)


STARTS_A_THREAD = (
    "import threading, time; threading.Thread(target=time.sleep, args=(99,), daemon=True).start()"
)


def test_a_rehearsal_that_starts_threads_is_left_out(isolated):
    """No guest can be forked from a process with threads: then guests load late what others have
    rehearsed.
    """
    pool = guests.GuestPool(LIMITS, rehearsals=[STARTS_A_THREAD])
    try:
        guest = pool.guest()
        outputs = []
        guest.request({"op": "start", "seed": 1, "files": []})
        guest.request({"op": "cell"}, [b"print(6 * 7)"], on_output=outputs.append)
        assert outputs[0]["text"] == "42\n"
        pool._log.seek(0)
        assert (
            "started again without rehearsals, which started threads: " in pool._log.read().decode()
        )
    finally:
        pool.close()


def test_a_sandbox_that_does_not_start_says_why(isolated, tmp_path, monkeypatch):
    """Whoever waits for a guest is told, in another process as well, what the warm parent ended
    in.
    """
    broken = tmp_path / "inside"
    shutil.copytree(bubblewrap.PROGRAM, broken)
    text = (broken / "parent.py").read_text(encoding="utf-8")
    (broken / "parent.py").write_text(
        text.replace("    interactive = shell.make_shell()\n", "    1 / 0\n")
    )
    monkeypatch.setattr(bubblewrap, "PROGRAM", broken)
    pool = guests.GuestPool(LIMITS)
    try:
        with pytest.raises(
            RuntimeError,
            match=r"the sandbox did not start: ZeroDivisionError: " r"division by zero\.",
        ):
            pool.guest()
        channel = guests.Channel(pool.channel(), LIMITS)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            channel.guest()
    finally:
        pool.close()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    with pytest.raises(RuntimeError, match="the sandbox did not start: it ended without a message"):
        guests.Channel(ours, LIMITS).guest()
