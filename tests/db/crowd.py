"""Many who work on the same rows at once, each on a connection of its own, until nothing is left to do."""

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Engine

from app.dev.waiting import wait_until
from db.engine import sync_engine
from db.errors import Refused
from tests.db.clerk import Clerk

Part = Callable[[Clerk, random.Random, str], Any]
"""What one of them does again and again, by chance and under its name."""

DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"


def let_loose(clerk: Clerk, database_url: str, parts: Sequence[Part], done: Callable[[], bool], seconds: float) -> None:
    """Let all of them work until `done`; refusals are answers. Fails on any other error, and on a deadlock."""
    before = clerk.scalar(DEADLOCKS)
    engine = sync_engine(database_url, pool_size=len(parts))
    ended = threading.Event()
    faults: list[BaseException] = []
    threads = [
        threading.Thread(target=_play, args=(engine, part, number, ended, faults)) for number, part in enumerate(parts)
    ]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: faults or done(), seconds=seconds, what="the end of all work")
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        engine.dispose()
    assert faults == []
    clerk.run("select pg_stat_force_next_flush()")
    assert clerk.scalar(DEADLOCKS) == before


def _play(engine: Engine, part: Part, number: int, ended: threading.Event, faults: list[BaseException]) -> None:
    chance = random.Random(number)
    with engine.connect() as connection:
        while not ended.is_set():
            try:
                part(Clerk(connection), chance, f"w{number}")
            except Refused:
                continue  # someone else was first, and the answer says so
            except BaseException as fault:
                faults.append(fault)
                return
