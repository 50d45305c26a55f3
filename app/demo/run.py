"""The demo from its first server to its account.

set up ──► place orders ──► start workers ──► trouble (a thread) ─┐
                                 └────────► watch until all ended ─┴──► stop workers ──► compare ──► account
"""

import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from app.cli.exits import ExitCode, Stop
from app.cli.output import remark
from app.demo.account import Account, Findings, compare, draw_up
from app.demo.orders import count_states, place_orders
from app.demo.progress import Display, display
from app.demo.source import SourceFile, list_files, standard_library
from app.demo.stage import Folders, Stage, set_up, stop_all
from app.demo.trouble import Stopped, Troublemaker

if TYPE_CHECKING:
    from collections.abc import Sequence

LOOK_SECONDS = 0.2
# Without any task ending for so long, the rest counts as lost instead of being waited for.
STANDSTILL_SECONDS = 60.0
ENDED = ("COMPLETED", "FAILED", "FAILED_COMPENSATED", "CANCELED")


@dataclass(frozen=True)
class Job:
    """What was asked for on the command line."""

    source: Path | None = None
    target: Path | None = None
    files: int | None = None
    pause_ms: int = 0
    keep: bool = False
    as_json: bool = False


def run_demo(job: Job) -> bool:
    """Run it, print the account; True when nothing was lost or doubled. Leaves nothing behind unless asked to."""
    with terminated_like_interrupted(), folders_for(job) as folders, display("copied") as shown:
        files = list_files(folders.source, job.files)
        if not files:
            raise Stop(ExitCode.USAGE, f"--source: there is no file to copy in {folders.source}")
        shown.say(f"starting Postgres, Valkey, API, beat, maintenance; {len(files)} files of {folders.source} to copy")
        with set_up(folders, job.pause_ms, job.keep) as stage:
            began = time.monotonic()
            copy_all(stage, folders, files, shown)
            shown.say("comparing the copy with the source")
            with stage.engine.connect() as conn:
                found = compare(conn, folders.source, folders.target, folders.diaries)
                account = draw_up(conn, found, folders.diaries, time.monotonic() - began)
    print(account.as_json() if job.as_json else written_out(account, found), flush=True)
    return account.holds


def copy_all(stage: Stage, folders: Folders, files: "Sequence[SourceFile]", shown: Display) -> None:
    """Order everything, let the workers work and the troublemaker make trouble until every task has ended."""
    place_orders(stage.engine, files)
    shown.say(f"{len(files)} orders and their tasks are committed together; starting {len(stage.workers)} workers")
    for process in stage.workers.values():
        process.start()
    watch = Watch(lambda: count_states(stage.engine), len(files), shown)
    stopping = Event()
    with ThreadPoolExecutor(1) as pool:
        trouble = pool.submit(Troublemaker(stage, folders.diaries, shown.say, watch.share_done, stopping).run)
        try:
            watch.until_all_ended(trouble)
        finally:
            stopping.set()
    if not isinstance(trouble.exception(), Stopped | None):
        trouble.result()
    stop_all(stage.workers.values())


class Watch:
    """Follows how many have ended, and shows it. `count` says how many are in which state, None while nobody knows."""

    def __init__(self, count: Callable[[], Mapping[str, int] | None], total: int, shown: Display) -> None:
        self._count = count
        self._total = total
        self._shown = shown
        self._ended = 0
        self._moved_at = time.monotonic()

    def share_done(self) -> float:
        """0 to 1."""
        return self._ended / self._total

    def until_all_ended(self, trouble: "Future[None]") -> None:
        """Return when all have ended and all trouble is over, or when nothing moves any more."""
        while self._ended < self._total or not trouble.done():
            self._look()
            if trouble.done() and trouble.exception() is not None:
                return
            if time.monotonic() - self._moved_at > STANDSTILL_SECONDS:
                self._shown.say(f"nothing has moved for {STANDSTILL_SECONDS:.0f} s: giving up on the rest")
                return
            time.sleep(LOOK_SECONDS)
        self._look()

    def _look(self) -> None:
        states = self._count()
        if states is None:
            self._shown.show(self._ended, self._total, "Postgres is away")
            return
        ended = sum(states.get(state, 0) for state in ENDED)
        if ended != self._ended:
            self._ended, self._moved_at = ended, time.monotonic()
        waiting = ", ".join(
            f"{number} {state.lower()}" for state, number in sorted(states.items()) if state != "COMPLETED"
        )
        self._shown.show(states.get("COMPLETED", 0), self._total, waiting)


@contextmanager
def folders_for(job: Job) -> Iterator[Folders]:
    """Source, target and a work folder; the last two are deleted afterwards unless they were asked for."""
    source = (job.source or standard_library()).resolve()
    work = Path(tempfile.mkdtemp(prefix="celeriac-demo-"))
    target = job.target.resolve() if job.target else work / "copy"
    try:
        if target.is_relative_to(source) or source.is_relative_to(target):
            raise Stop(ExitCode.USAGE, "--target: source and target must not lie within each other")
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise Stop(ExitCode.USAGE, f"--target: {target} is not empty")
        yield Folders(source, target, work)
    finally:
        if job.keep:
            remark(f"kept: {work}")
        else:
            shutil.rmtree(work)


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C, so that every server is stopped on the way out."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def written_out(account: Account, found: Findings) -> str:
    """The account as a person reads it."""
    lines = [
        ("files", account.files, "ordered, each with its task in the same transaction"),
        ("completed", account.completed, "tasks whose completion Postgres has on record"),
        ("lost", account.lost, "copies that are missing or differ from their source"),
        ("doubled", account.doubled, "files whose completion was accepted, or whose row was written, more than once"),
        (
            "runs",
            found.begun,
            f"of the handler, {found.begun - account.files} more than files: begun again after a loss",
        ),
        ("leases lost", account.leases_lost, "by workers that were killed or frozen"),
        ("stale writes refused", account.stale_writes_refused, "of workers that thought they still held a task"),
        ("left unfinished", found.unfinished, "temporary files of killed workers, removed"),
        ("seconds", account.seconds, "from the first order to the end of the comparison"),
    ]
    table = "\n".join(f"  {name:<22}{value:>8}   {meaning}" for name, value, meaning in lines)
    broken = "".join(f"\n  LOST     {path}" for path in found.lost[:20])
    broken += "".join(f"\n  DOUBLED  {path}" for path in found.doubled[:20])
    verdict = "Nothing was lost, nothing was doubled." if account.holds else "The promise does not hold."
    return f"\nThe account\n{table}{broken}\n\n{verdict}"
