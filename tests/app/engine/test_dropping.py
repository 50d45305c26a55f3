"""Work that an instance no longer wants is canceled, also when somebody is at it in that very moment."""

import psycopg
from sqlalchemy import text

from db import call
from tests.app.engine.conftest import Desk, flow, model, task

ONE = model('<startEvent id="s"/>' + task("a") + '<endEvent id="e"/>' + flow("s", "a", "e"))


def test_a_task_that_somebody_is_at_is_canceled_right_after(desk: Desk, database_url: str) -> None:
    desk.deploy(ONE)
    instance = desk.start()
    row = desk.fetch("a")
    with psycopg.connect(database_url) as other:
        other.execute("select from celeriac.queue where task_id = %s for update", [row.task_id])
        call.one(desk.conn, "stop_instance", instance_id=instance)
        desk.advance(instance)
        assert (desk.status(instance), desk.ready()) == ("CANCELED", ["a"])
        call.one(desk.conn, "fire_timers")
        assert desk.ready() == ["a"]
    call.one(desk.conn, "fire_timers")
    assert desk.ready() == []
    assert desk.one("select state from celeriac.task_list where task_id = :id", id=row.task_id) == "CANCELED"


def test_what_it_has_asked_for_is_canceled_with_it(desk: Desk) -> None:
    desk.deploy(ONE)
    instance = desk.start()
    row = desk.fetch("a")
    call.rows(
        desk.conn, "enqueue_children", task_id=row.task_id, worker_id="w", fencing_token=row.fencing_token, branch="",
        ordinal=1, name="child", tasks=call.json_list([{"task_type": "child"}]),
    )  # fmt: skip
    assert desk.ready() == ["a", "child"]
    call.one(desk.conn, "stop_instance", instance_id=instance)
    desk.advance(instance)
    assert desk.conn.execute(text("select distinct state from celeriac.task_list")).scalars().all() == ["CANCELED"]
