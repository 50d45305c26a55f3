"""What is forgotten of instances, what is kept, and what must not be starved meanwhile."""

import json

from sqlalchemy import text

from db import call
from tests.app.engine.conftest import Desk, flow, model, task
from tests.clock import Clock

ONE = model('<startEvent id="s"/>' + task("a") + '<endEvent id="e"/>' + flow("s", "a", "e"))
DAY = 86_400


def purge(desk: Desk, days: int, **more: object) -> object:
    return call.one(desk.conn, "purge_instances", older_than_ms=days * DAY * 1000, **more)


def rows_of(desk: Desk, instance: str) -> dict[str, int]:
    tables = ("scope", "token", "variable", "event_wait", "undo", "undo_run", "fact", "instance_history", "incident")
    return {
        name: desk.one(f"select count(*) from celeriac.{name} where instance_id = :id", id=instance) for name in tables
    }


def test_an_ended_instance_is_forgotten_whole_after_its_time_and_an_open_one_never(desk: Desk, clock: Clock) -> None:
    desk.deploy(ONE)
    ended, stuck = desk.start(x=1), desk.start(x=2)
    desk.complete("a", y=1)
    desk.fail("a")
    clock.advance(10 * DAY)
    assert purge(desk, 11).purged == 0  # type: ignore[attr-defined]
    purged = purge(desk, 9, max_instances=1)
    rest = purge(desk, 9, after=purged.last_id)  # type: ignore[attr-defined]
    assert (purged.purged + rest.purged, rest.last_id) == (1, None)  # type: ignore[attr-defined]
    assert (set(rows_of(desk, ended).values()), rows_of(desk, stuck)["incident"]) == ({0}, 1)


def test_the_incident_of_an_open_instance_outlives_its_task(desk: Desk, clock: Clock) -> None:
    desk.deploy(ONE)
    instance = desk.start()
    desk.fail("a")
    clock.advance(10 * DAY)
    assert call.one(desk.conn, "purge_ended", older_than_ms=DAY * 1000).purged == 1
    assert desk.incidents(instance) == [("a", "failed")]
    incident = desk.one("select incident_id from celeriac.incidents where instance_id = :id", id=instance)
    call.one(desk.conn, "resolve_incident", incident_id=incident, resolution="retry")
    desk.advance(instance)
    assert desk.ready() == ["a"]


def test_events_that_were_kept_too_long_are_forgotten(desk: Desk, clock: Clock) -> None:
    call.rows(desk.conn, "throw_event", kind="message", name="m", ttl_ms=1000)
    purge(desk, 1)
    assert desk.one("select count(*) from celeriac.kept_event") == 1
    clock.advance(2)
    purge(desk, 1)
    assert desk.one("select count(*) from celeriac.kept_event") == 0


def test_what_happens_to_suspended_instances_takes_nobodys_place(desk: Desk) -> None:
    desk.deploy(ONE)
    still, moving = desk.start(), desk.start()
    call.one(desk.conn, "suspend_instance", instance_id=still, suspended=True)
    desk.conn.execute(
        text("select celeriac.tell_instance(cast(:id as uuid), 'continued') from generate_series(1, 30)"), {"id": still}
    )
    desk.conn.execute(text("select celeriac.tell_instance(cast(:id as uuid), 'continued')"), {"id": moving})
    due = call.rows(desk.conn, "due_instances", older_than_ms=0, max_instances=1)
    assert [str(row.instance_id) for row in due] == [moving]


def test_what_comes_after_the_end_is_put_away(desk: Desk) -> None:
    """A task that ends in the very moment in which its instance does has told it so, and nobody consumes that."""
    desk.deploy(ONE)
    instance = desk.start()
    desk.complete("a")
    payload = json.dumps({"variables": {}})
    desk.conn.execute(
        text("select celeriac.tell_instance(cast(:id as uuid), 'completed', null, cast(:payload as jsonb))"),
        {"id": instance, "payload": payload},
    )
    desk.advance(instance)
    assert call.rows(desk.conn, "due_instances", older_than_ms=0) == []
