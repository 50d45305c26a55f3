"""What is told to an instance in the middle of a load is worked in by the next one, and never lost."""

import threading
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

import db
from app.dev.waiting import wait_until
from app.engine import advance
from db import call
from db.engine import sync_engine
from tests.app.engine.conftest import Desk, flow, model, task

LOAD = Path(db.__file__).parent / "functions/instance/load_instance.sql"
LAST = "    return jsonb_build_object("
GATE = 4_711

FORK = model(
    '<startEvent id="s"/><parallelGateway id="f"/>'
    + task("a")
    + task("b")
    + '<parallelGateway id="j"/><endEvent id="e"/>'
    + flow("s", "f", "a", "j", "e")
    + flow("f", "b", "j")
)


def end(desk: Desk, topic: str) -> None:
    row = desk.fetch(topic)
    call.one(desk.conn, "complete_task", task_id=row.task_id, worker_id="w", fencing_token=row.fencing_token)


@pytest.mark.parametrize("told", [1, 2])
def test_a_fact_that_comes_between_two_looks_of_a_load_is_kept(desk: Desk, database_url: str, told: int) -> None:
    source = LOAD.read_text()
    assert source.count(LAST) == 1
    desk.conn.exec_driver_sql(source.replace(LAST, f"    perform pg_advisory_xact_lock({GATE});\n{LAST}"))
    desk.deploy(FORK)
    engine = sync_engine(database_url)

    def load() -> None:
        with engine.connect().execution_options(isolation_level="READ COMMITTED") as other, other.begin():
            advance(other, instance)

    instance = desk.start()
    if told == 2:
        end(desk, "a")
    with psycopg.connect(database_url, autocommit=True) as gate:
        gate.execute("select pg_advisory_lock(%s)", [GATE])
        loading = threading.Thread(target=load)
        loading.start()
        waiting = text("select count(*) from pg_locks where locktype = 'advisory' and not granted")
        wait_until(lambda: desk.conn.execute(waiting).scalar_one() == 1, what="the load at the gate")
        end(desk, "b" if told == 2 else "a")
        gate.execute("select pg_advisory_unlock(%s)", [GATE])
        loading.join()
    engine.dispose()
    if told == 1:
        desk.advance(instance)
        end(desk, "b")
    desk.advance(instance)
    assert desk.status(instance) == "COMPLETED"
