"""The saga from its first server to its account.

set up ──► deploy ──► start workers ──► trouble (a thread) ───────────────┐
                            └────────► place orders until all have ended ─┴──► stop workers ──► compare ──► account
"""

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from app.cli.exits import ExitCode, Stop
from app.cli.output import remark
from app.demo.progress import Display, display
from app.demo.run import ENDED, Watch, terminated_like_interrupted
from app.demo.saga.account import Account, Fate, Verdict, compare, draw_up
from app.demo.saga.orders import CHARGE, SHIP, CustomerOrder, count_statuses, made_up
from app.demo.saga.pictures import draw
from app.demo.saga.shop import Shop
from app.demo.saga.stage import SagaStage, set_up, stock_command
from app.demo.saga.trouble import SagaTroublemaker
from app.demo.stage import stop_all
from app.demo.trouble import Stopped

if TYPE_CHECKING:
    from sqlalchemy import Engine

MOST_WRONG_SHOWN = 20


@dataclass(frozen=True)
class Job:
    """What was asked for on the command line."""

    orders: int
    svg: Path | None = None
    pause_ms: int = 20
    keep: bool = False
    as_json: bool = False


def run_saga(job: Job) -> bool:
    """Run it, print the account; True when every order was shipped or undone. Leaves nothing behind unless asked to."""
    with terminated_like_interrupted(), work_folder(job.keep) as work, display("shipped") as shown:
        album = Album(album_folder(job.svg))
        orders, language = made_up(job.orders), Path(stock_command()[0]).name
        shown.say(
            f"starting Postgres, Valkey, API, beat, maintenance; {len(orders)} orders, stock workers in {language}"
        )
        with set_up(work, job.pause_ms, job.keep) as stage:
            began = time.monotonic()
            carry_out(stage, orders, album, shown)
            shown.say("comparing what was done with what was ordered")
            with stage.engine.connect() as conn:
                evidence, verdicts = compare(conn, orders, stage.places)
                account = draw_up(conn, verdicts, evidence, stage.places, time.monotonic() - began)
            album.finish(stage.engine, orders, shown)
    print(account.as_json() if job.as_json else written_out(account, verdicts), flush=True)
    return account.holds


def carry_out(stage: SagaStage, orders: Sequence[CustomerOrder], album: "Album", shown: Display) -> None:
    """Place the orders, let the workers work and the troublemaker make trouble until every order has ended."""
    with closing(Shop(stage.engine, stage.places.api_url, stage.shop_key, orders)) as shop:
        shop.deploy()
        shown.say(f"the process is deployed; starting {len(stage.workers)} workers")
        for process in stage.workers.values():
            process.start()

        def count() -> Mapping[str, int] | None:
            statuses = count_statuses(stage.engine)
            if statuses is not None:
                ended = sum(statuses.get(status, 0) for status in ENDED)
                shop.place_next(ended)
                album.catch_the_middle(stage.engine, ended / len(orders))
            return statuses

        watch = Watch(count, len(orders), shown)
        stopping = Event()
        with ThreadPoolExecutor(1) as pool:
            maker = SagaTroublemaker(stage, stage.places.diaries, shown.say, watch.share_done, stopping)
            trouble = pool.submit(maker.run)
            try:
                watch.until_all_ended(trouble)
            finally:
                stopping.set()
        if not isinstance(trouble.exception(), Stopped | None):
            trouble.result()
    stop_all(stage.workers.values())


class Album:
    """The pictures, if somebody wants any."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._has_middle = False

    def catch_the_middle(self, engine: "Engine", share: float) -> None:
        """The model while half of the orders are done; left out when the database goes away just then."""
        from sqlalchemy.exc import DBAPIError

        from db.errors import Unavailable

        if self._folder is None or self._has_middle or share < 0.5:
            return
        with suppress(DBAPIError, Unavailable), engine.connect() as conn:
            draw(conn, self._folder / "halfway.svg")
            self._has_middle = True

    def finish(self, engine: "Engine", orders: Sequence[CustomerOrder], shown: Display) -> None:
        """The model with all counts, and an order of each kind."""
        if self._folder is None:
            return
        names = {None: "shipped", SHIP: "undone-from-ship", CHARGE: "undone-from-charge"}
        firsts = {order.refused_at: order for order in reversed(orders)}
        with engine.connect() as conn:
            draw(conn, self._folder / "all.svg")
            for refused_at, order in firsts.items():
                draw(conn, self._folder / f"{order.id}-{names[refused_at]}.svg", order.id)
        shown.say(f"pictures are in {self._folder}")


def album_folder(folder: Path | None) -> Path | None:
    """Made if it is not there."""
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Stop(ExitCode.USAGE, f"--svg: {folder} cannot be made: {error.strerror}") from None
    return folder


@contextmanager
def work_folder(keep: bool) -> Iterator[Path]:
    """Logs, diaries and data; deleted afterwards unless they were asked for."""
    work = Path(tempfile.mkdtemp(prefix="celeriac-demo-"))
    try:
        yield work
    finally:
        if keep:
            remark(f"kept: {work}")
        else:
            shutil.rmtree(work)


def written_out(account: Account, verdicts: Sequence[Verdict]) -> str:
    """The account as a person reads it."""
    lines = [
        ("orders", account.orders, "placed, each with one instance of the process"),
        ("shipped", account.shipped, "reserved, checked, charged and shipped, once each"),
        ("undone", account.undone, "refused by the bank or the carrier; what was done is undone, once, newest first"),
        ("half", account.half, "neither the one nor the other"),
        ("twice", account.twice, "with a step that was done, or completed, more than once"),
        ("out of order", account.out_of_order, "with a step that did not wait for the one before"),
        ("calls repeated", account.calls_repeated, "of workers to systems outside, which knew the task's id again"),
        ("leases lost", account.leases_lost, "by workers that were killed or frozen"),
        ("stale writes refused", account.stale_writes_refused, "of workers that thought they still held a task"),
        ("seconds", account.seconds, "from the first order to the end of the comparison"),
    ]
    table = "\n".join(f"  {name:<22}{value:>8}   {meaning}" for name, value, meaning in lines)
    wrong = [verdict for verdict in verdicts if verdict.fate not in (Fate.SHIPPED, Fate.UNDONE)]
    broken = "".join(f"\n  {one.fate.upper():<13}{one.order}: {one.wrong}" for one in wrong[:MOST_WRONG_SHOWN])
    verdict = "Every order was shipped once or undone once." if account.holds else "The promise does not hold."
    return f"\nThe account\n{table}{broken}\n\n{verdict}"
