"""Servers for the length of a test: Jupyter's, and PostgreSQL's."""

import contextlib
import json
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import quote

# As the book's page on grading starts it (book/grading.md).
FORMGRADER = "--ServerApp.jpserver_extensions={'nbgrader.server_extensions.formgrader': True}"


def free_ports(count):
    """Return ports of 127.0.0.1 that nobody uses at the moment."""
    with contextlib.ExitStack() as stack:
        # All stay open until the last one is bound, so that no port comes twice.
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def jupyter(folder, module, *options):
    """Run `python -m module` as a server on a free port, rooted at `folder`; give its address
    and token.
    """
    token = secrets.token_hex(16)
    environment = {
        **os.environ,
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "HOME": str(folder),
    }
    command = [
        sys.executable,
        "-m",
        module,
        "--no-browser",
        "--ip=127.0.0.1",
        "--port=0",
        "--allow-root",
    ]
    command += [f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}", *options]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield _address(folder / "runtime", process), token
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        # Jupyter waits for kernels and browsers; nobody needs that here
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(runtime, process, seconds=600):
    """Wait until the server answers, and return its address."""
    for _ in range(seconds * 4):
        time.sleep(0.25)
        assert process.poll() is None, "the server ended"
        for path in runtime.glob("jpserver-*.json"):
            with contextlib.suppress(OSError, ValueError):
                address = json.loads(path.read_text())["url"]
                urllib.request.urlopen(address + "api", timeout=2)
                return address
    raise AssertionError("the server did not start")


def postgres_programs():
    """Return the folder with PostgreSQL's programs, or None where there is no server installed."""
    postgres_path = shutil.which("postgres")
    folders = [Path(postgres_path).resolve().parent] if postgres_path else []
    # Debian keeps them out of the way, by version.
    folders += sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name)
    )[::-1]
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class Postgres:
    """A PostgreSQL server of its own, on a socket in a folder and on a free port of 127.0.0.1.

    Attributes
    ----------
    folder : Path
        With the socket; `?host=` of an address names it.
    port : int
    """

    def __init__(self, folder):
        self.programs = postgres_programs()
        self.folder = folder
        (self.port,) = free_ports(1)
        # PostgreSQL refuses to run as root.
        owner = next(
            (user for user in pwd.getpwall() if user.pw_name in ("postgres", "nobody")), None
        )
        self.as_owner = []
        if os.geteuid() == 0:
            folder.chmod(0o755)
            self.as_owner = [
                "setpriv",
                f"--reuid={owner.pw_uid}",
                f"--regid={owner.pw_gid}",
                "--clear-groups",
            ]
        self.data = folder / "data"
        self.data.mkdir()
        if self.as_owner:
            os.chown(self.data, owner.pw_uid, owner.pw_gid)
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        self._run(
            "initdb", "-D", self.data, "-U", "boss", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"
        )
        # Whoever comes by the network needs a password, but for the one who has all rights.
        (self.data / "pg_hba.conf").write_text(
            "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n", encoding="utf-8"
        )

    def _run(self, program, *arguments):
        command = [*self.as_owner, str(self.programs / program), *map(str, arguments)]
        # To a file: the server that pg_ctl starts would keep a pipe open.
        with (self.folder.parent / f"{program}.log").open("w") as log:
            result = subprocess.run(command, cwd="/", stdout=log, stderr=log)
        assert result.returncode == 0, (self.folder.parent / f"{program}.log").read_text()

    def start(self):
        """Start it, and wait until it answers."""
        options = f"-c fsync=off -c listen_addresses=127.0.0.1 -c port={self.port} -k {self.folder}"
        self._run(
            "pg_ctl",
            "-D",
            self.data,
            "-w",
            "-t",
            60,
            "-l",
            self.folder / "log",
            "-o",
            options,
            "start",
        )

    def stop(self):
        """Stop it at once; whatever was connected is cut off."""
        self._run("pg_ctl", "-D", self.data, "-w", "-m", "fast", "stop")

    def url(self, database, user="boss", password=""):
        """Return the address of a database: by the socket, or with a password by the network."""
        if password:
            return f"postgresql+psycopg://{user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"
        return f"postgresql+psycopg://{user}@/{database}?host={self.folder}&port={self.port}"

    def sql(self, query, database="postgres"):
        """Run a query as who has all rights; return its rows."""
        import psycopg

        with psycopg.connect(
            f"host={self.folder} port={self.port} user=boss dbname={database}", autocommit=True
        ) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []


@contextlib.contextmanager
def postgres():
    """Run a PostgreSQL server in a folder of its own, which is gone afterwards."""
    # a socket's path has at most 107 bytes
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "server").mkdir()
        server = Postgres(Path(folder) / "server")
        server.start()
        try:
            yield server
        finally:
            if (server.data / "postmaster.pid").exists():
                server.stop()
