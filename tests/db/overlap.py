"""Two callers of one database: the second comes when the first has done its work and has not committed yet."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sqlalchemy import Connection, text

from app.dev.waiting import wait_until
from db.engine import sync_engine
from db.errors import Refused
from tests.db.clerk import Clerk

Call = Callable[[Clerk], Any]
WAITS = text("select wait_event_type = 'Lock' from pg_stat_activity where pid = :pid")


def overlap(url: str, first: Call, second: Call, *, keep: bool = True) -> tuple[Any, Any]:
    """What each was answered, or its refusal. Without `keep`, the first is rolled back in place of committed."""
    engine = sync_engine(url, pool_size=3)
    with (
        engine.connect() as one,
        engine.connect() as other,
        engine.connect() as watcher,
        ThreadPoolExecutor(1) as thread,
    ):
        one.exec_driver_sql("begin")
        answer = _answer(one, first)
        pid = other.execute(text("select pg_backend_pid()")).scalar_one()
        waiting = thread.submit(_answer, other, second)
        wait_until(lambda: waiting.done() or _waits(watcher, pid), what="the second to answer or to wait for a lock")
        one.exec_driver_sql("commit" if keep else "rollback")
        answers = answer, _result(waiting)
    engine.dispose()
    return answers


def _answer(connection: Connection, call: Call) -> Any:
    try:
        return call(Clerk(connection))
    except Refused as refusal:
        return refusal


def _waits(watcher: Connection, pid: int) -> bool:
    return bool(watcher.execute(WAITS, {"pid": pid}).scalar_one())


def _result(waiting: "Future[Any]") -> Any:
    return waiting.result(timeout=30)
