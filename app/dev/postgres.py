"""A Postgres of our own, for tests, the demo and development: real server, loopback only, no installation.

As root it runs as the user ``nobody`` (Postgres refuses to be root). Folders above the data keep their rights: data
that nobody could reach is kept under /var/lib/celeriac, and a link stands where it was asked for.
"""

import ctypes
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote

import psutil

from app.dev.ports import free_port
from app.dev.postgres_binaries import Version, binaries_for_all, find_binaries, reachable_by_all
from app.dev.processes import Process, ProcessEnded
from app.dev.waiting import wait_until

SUPERUSER = "postgres"
START_SECONDS = 60
STOP_SECONDS = 30
PORT_ATTEMPTS = 5
STOP_SIGNALS: Mapping[str, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
# Nothing may come in from the caller's environment (PGPORT, LANG, …): the server is the same on every machine.
SERVER_ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
OUTSIDE_DATA = Path("/var/lib/celeriac")
# A file system in memory: a database is copied there in 10 ms, on a slow disk in 300. Smaller ones (Docker gives 64 MB)
# and machines where it would have to be swapped are left alone.
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - only mkdtemp writes there
WANTED_FOLDER_BYTES, WANTED_MEMORY_BYTES = 4 * 2**30, 8 * 2**30

StopMode = Literal["fast", "immediate"]


@dataclass(frozen=True)
class _Account:
    """The user that runs the server; None: the one that runs us."""

    user: int | None
    group: int | None


class EmbeddedPostgres:
    """One Postgres cluster and its server process. A context manager; ends with this process in any case.

    ``data_dir`` is made when it is missing and kept; None is a temporary one, deleted on exit.
    ``durable=False`` gives up crash safety of the machine (not of the server process) for speed, and keeps temporary
    data in memory where there is plenty.
    ``settings`` are further server settings (name to value).
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        version: Version = 18,
        *,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.version: Version = version
        self.durable = durable
        self.settings = dict(settings or {})
        self._account = _server_account()
        self._asked_dir = data_dir
        self._temporary: Path | None = None
        self._data_dir: Path | None = None
        self._process: Process | None = None
        self._port = 0

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def port(self) -> int:
        """The same over all restarts."""
        return self._port

    @property
    def pid(self) -> int:
        return self._started().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    @property
    def data_dir(self) -> Path:
        if self._data_dir is None:
            raise RuntimeError("this Postgres was never started")
        return self._data_dir

    def url(self, database: str = "postgres", role: str | None = None) -> str:
        """A ``postgresql://`` URL as superuser; with ``role``, sessions start as that role."""
        options = f"?options={quote(f'-crole={role}', safe='')}" if role else ""
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self._port}/{quote(database, safe='')}{options}"

    def output(self) -> str:
        """The server's log."""
        return self._started().output()

    def start(self) -> Self:
        """Start and wait until it takes connections. Raises ProcessEnded with the log when it does not come up."""
        if self._data_dir is None:
            self._data_dir = self._open_data_dir()
        binaries = find_binaries(self.version)
        if self._account.user is not None:
            binaries = binaries_for_all(binaries)
        if not (self._data_dir / "PG_VERSION").exists():
            self._init(binaries)
        self._start_on_a_port(binaries)
        return self

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server: "fast" ends sessions and writes a checkpoint, "immediate" is a crash without the mess."""
        if self._process is None or not self._process.is_running:
            return
        self.thaw()
        self._process.send(STOP_SIGNALS[mode])
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        if self._process.is_running:
            self.kill()
        self._process.stop()

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start on the same port; sessions are lost, committed work is not."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """SIGKILL the whole server, as the kernel does when memory is short. start() recovers it."""
        process = self._started()
        # Backends lead sessions of their own, so the process group does not hold them; a stopped parent forks no more.
        process.freeze()
        backends = self._backends()
        process.kill()
        for backend in backends:
            with suppress(psutil.NoSuchProcess):
                backend.kill()
        wait_until(lambda: not any(_lives(backend) for backend in backends), what="the end of all backends")
        self._release_shared_memory()

    def freeze(self) -> None:
        """SIGSTOP the whole server: connections stay open and nothing answers."""
        self._started().freeze()
        for backend in self._backends():
            with suppress(psutil.NoSuchProcess):
                backend.suspend()

    def thaw(self) -> None:
        process = self._started()
        if process.is_running:
            for backend in self._backends():
                with suppress(psutil.NoSuchProcess):
                    backend.resume()
        process.thaw()

    def close(self) -> None:
        """Stop, and delete the data when it is a temporary one."""
        self.stop("immediate" if self._temporary else "fast")
        if self._temporary is not None:
            shutil.rmtree(self._temporary)
            self._temporary = self._data_dir = None

    def _started(self) -> Process:
        if self._process is None:
            raise RuntimeError("this Postgres was never started")
        return self._process

    def _backends(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _open_data_dir(self) -> Path:
        if self._asked_dir is None:
            where = None if self.durable else _memory_folder()
            self._temporary = Path(tempfile.mkdtemp(prefix="celeriac-postgres-", dir=where))
            self._temporary.chmod(0o711)
            data_dir = self._temporary / "data"
        else:
            data_dir = _place_for(self._asked_dir.absolute(), self._account)
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._account.user is not None and not any(data_dir.iterdir()):
            os.chown(data_dir, self._account.user, self._account.group or 0)
        return data_dir

    def _init(self, binaries: Path) -> None:
        # --auth=trust: the server listens on loopback only and holds development data.
        arguments = ["-U", SUPERUSER, "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        answer = subprocess.run(
            [str(binaries / "initdb"), "-D", str(self.data_dir), *arguments],
            env=SERVER_ENV,
            cwd="/",
            user=self._account.user,
            group=self._account.group,
            extra_groups=None if self._account.user is None else [],
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            raise ProcessEnded(f"initdb ended with {answer.returncode}:\n{answer.stdout}{answer.stderr}")

    def _start_on_a_port(self, binaries: Path) -> None:
        keeps_port = self._port != 0
        for attempt in range(1, PORT_ATTEMPTS + 1):
            if not keeps_port:
                self._port = free_port()
            self._process = self._make_process(binaries).start()
            already_logged = len(self._process.output())
            try:
                self._process.wait_for(self._is_ready, START_SECONDS, what="taking connections")
                return
            except BaseException as error:
                lost_port = "could not bind" in self._process.output()[already_logged:]
                self._process.stop()
                if keeps_port or attempt == PORT_ATTEMPTS or not (isinstance(error, ProcessEnded) and lost_port):
                    raise

    def _make_process(self, binaries: Path) -> Process:
        settings = _server_settings(self._port, durable=self.durable) | self.settings
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Process(
            [binaries / "postgres", "-D", self.data_dir, *options],
            self.data_dir / "server.log",
            name="postgres",
            env=SERVER_ENV,
            cwd=Path("/"),
            user=self._account.user,
            group=self._account.group,
            orphan_signal=STOP_SIGNALS["immediate"],
            orphan_folder=self._temporary,
        )

    def _is_ready(self) -> bool:
        # What pg_ctl looks at: line 1 is the pid, line 8 the status. An old file of a crashed server has another pid.
        lines = self._pid_file_lines()
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _pid_file_lines(self) -> list[str]:
        try:
            return (self.data_dir / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _release_shared_memory(self) -> None:
        """Remove the System V segment that a killed server leaves behind (line 7 of its pid file: key and id)."""
        lines = self._pid_file_lines()
        if len(lines) >= 7 and len(fields := lines[6].split()) == 2:
            remove = 0  # IPC_RMID
            ctypes.CDLL(None).shmctl(int(fields[1]), remove, None)


def _server_settings(port: int, *, durable: bool) -> dict[str, str]:
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": "",
        "max_connections": "200",
        # In the data folder instead of /dev/shm: gone with it after a SIGKILL, and not bounded by a container's 64 MB.
        "dynamic_shared_memory_type": "mmap",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] %d ",
    }
    if not durable:
        settings |= {"fsync": "off", "full_page_writes": "off", "max_wal_size": "256MB"}
    return settings


def _server_account() -> _Account:
    if os.geteuid() != 0:
        return _Account(None, None)
    nobody = pwd.getpwnam("nobody")
    return _Account(nobody.pw_uid, nobody.pw_gid)


def _memory_folder() -> Path | None:
    if not os.access(MEMORY_FOLDER, os.W_OK) or shutil.disk_usage(MEMORY_FOLDER).free < WANTED_FOLDER_BYTES:
        return None
    return MEMORY_FOLDER if psutil.virtual_memory().available >= WANTED_MEMORY_BYTES else None


def _place_for(asked: Path, account: _Account) -> Path:
    """Where the data really lives: as asked, or (as root) at a place that the server's user can reach."""
    asked.parent.mkdir(parents=True, exist_ok=True)
    if account.user is None or reachable_by_all(asked.resolve().parent):
        return asked.resolve()
    if asked.exists():
        raise PermissionError(f"{asked} cannot be reached by the user nobody; choose a folder outside of it")
    digest = hashlib.sha256(str(asked).encode()).hexdigest()[:12]
    place = OUTSIDE_DATA / f"{asked.name}-{digest}"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    asked.unlink(missing_ok=True)  # a link whose target was deleted
    asked.symlink_to(place, target_is_directory=True)
    return place


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
