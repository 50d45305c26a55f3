"""Child processes that leave nothing behind.

Every process is started in a process group of its own, which a tiny shell leads:

    this process ──pipe──► sh (leads the group, waits for the end of the pipe)
                           └ the command and whatever it forks

When this process ends, however it ends, the kernel closes the pipe and the shell kills the group. As the shell
lives in the group, the group's number cannot pass to strangers while we hold it. This works on Linux and macOS,
needs no code between fork and exec, and (unlike PR_SET_PDEATHSIG) does not depend on which thread started the child.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from app.dev.waiting import wait_until

LOG_TAIL_BYTES = 4096


class ProcessEnded(RuntimeError):
    """A process ended while we waited for something it should do; the text holds the end of its log."""


class Process:
    """One command, its log file and its process group. Use it as a context manager, or start() and stop() it.

    ``env`` is the whole environment of the child (default: ours). ``user`` and ``group`` drop rights (root only).
    ``orphan_signal`` is what the group gets when we die without stopping it (SIGKILL follows within 10 s), and
    ``orphan_folder`` is then deleted: only for a temporary one.
    A stopped process can be started again; its log goes on in the same file.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: int | None = None,
        group: int | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        orphan_signal: signal.Signals = signal.SIGKILL,
        orphan_folder: Path | None = None,
    ) -> None:
        self.command = [str(part) for part in command]
        self.log = log
        self.name = name or Path(self.command[0]).name
        self.env = env
        self.cwd = cwd
        self.user = user
        self.group = group
        self.stop_signal = stop_signal
        self.orphan_signal = orphan_signal
        self.orphan_folder = orphan_folder
        self._child: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._logged_before = 0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Start the command; returns at once (see wait_for). Raises FileNotFoundError for an unknown command."""
        if self.is_running:
            raise RuntimeError(f"{self.name} runs already (pid {self.pid})")
        self._close_group()
        self._guard = _start_guard(self.orphan_signal, self.orphan_folder)
        try:
            self._child = self._start_child(self._guard.pid)
            self._tell_guard(self._guard)
        except BaseException:
            self._close_group()
            raise
        return self

    def _start_child(self, process_group: int) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            self._logged_before = log.tell()
            return subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.cwd,
                env=None if self.env is None else dict(self.env),
                process_group=process_group,
                user=self.user,
                group=self.group,
                extra_groups=None if self.user is None else [],
            )

    def _tell_guard(self, guard: subprocess.Popen[bytes]) -> None:
        assert guard.stdin is not None
        guard.stdin.write(f"{self.pid}\n".encode())
        guard.stdin.flush()

    @property
    def pid(self) -> int:
        if self._child is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._child.pid

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs (or was never started); negative: the signal that ended it."""
        return None if self._child is None else self._child.poll()

    def output(self) -> str:
        """All that the process has written so far, over all its starts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def wait_for(self, condition: Callable[[], object], seconds: float = 30, *, what: str = "the condition") -> None:
        """Wait until ``condition()`` is true. Raises ProcessEnded when it ends first, ConditionNotMet when late."""

        def met_or_ended() -> bool:
            return bool(condition()) or not self.is_running

        wait_until(met_or_ended, seconds, what=f"{what} of {self.name}")
        if not self.is_running and not condition():
            raise ProcessEnded(f"{self.name} ended with {self.exit_code} before {what}:\n{self._log_tail()}")

    def wait_for_output(self, text: str, seconds: float = 30) -> None:
        self.wait_for(lambda: text in self.output(), seconds, what=f"output {text!r}")

    def wait(self, seconds: float = 30) -> int:
        """Wait until the process ends by itself and return its exit code; raises subprocess.TimeoutExpired."""
        if self._child is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._child.wait(seconds)

    def send(self, what: signal.Signals) -> None:
        """Signal the process alone, not its children; no effect on one that has ended."""
        if self._child is not None:
            self._child.send_signal(what)

    def stop(self, seconds: float = 15) -> int | None:
        """Ask it to stop, wait, kill what is left of its group. Safe to call at any time; returns the exit code."""
        if self.is_running:
            self.send(self.stop_signal)
            self.thaw()
            with suppress(subprocess.TimeoutExpired):
                self.wait(seconds)
        self._close_group()
        return self.exit_code

    def kill(self) -> None:
        """SIGKILL the process and its children at once."""
        self._close_group()

    def freeze(self) -> None:
        """SIGSTOP the process and its children: alive, holding all they hold, doing nothing."""
        self._signal_children(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_children(signal.SIGCONT)

    def _signal_children(self, what: signal.Signals) -> None:
        if self._guard is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._guard.pid, what)
        # The shell must keep watching even while the others are frozen.
        self._guard.send_signal(signal.SIGCONT)

    def _close_group(self) -> None:
        if self._guard is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._guard.pid, signal.SIGKILL)
        for process in (self._child, self._guard):
            if process is not None:
                process.wait()
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        self._guard = None

    def _log_tail(self) -> str:
        """The end of what was written since the last start; what came before is of another time."""
        with self.log.open("rb") as log:
            log.seek(max(self._logged_before, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            return log.read().decode(errors="replace")


# $1: signal, $2: folder to delete, or nothing. The first line names the child; the end of the pipe, that we are gone.
GUARD_SCRIPT = """
trap '' "$1"
read -r child
read -r _
if [ "$1" != 9 ]; then
    kill -CONT 0
    kill -"$1" 0
    tries=0
    while kill -0 "$child" && [ "$tries" -lt 100 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
fi
[ -z "$2" ] || rm -rf -- "$2"
kill -KILL 0
"""


def _start_guard(orphan_signal: signal.Signals, folder: Path | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", GUARD_SCRIPT, "guard", str(int(orphan_signal)), str(folder or "")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )


def console_command(name: str) -> Path:
    """The console script ``name`` of the environment that runs this code, whatever PATH says."""
    return Path(sys.executable).parent / name
