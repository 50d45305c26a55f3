"""Schedules fired by the chore: alone, beside others, after outages, and while it is killed."""

import dataclasses
import json
import threading
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from sqlalchemy import Connection, Row, text

from app.bell import CHANNEL
from app.cron import first_slot, timing
from app.dev.waiting import wait_until
from db import call
from db.errors import Unavailable
from tests.clock import Clock
from tests.workers.conftest import StartProcess
from tests.workers.probes import until_ready
from workers import run_schedules as chore
from workers.celery_app import make_app
from workers.chore import Tools
from workers.maintenance import close_tools, open_tools
from workers.run_schedules import run_schedules

MINUTE = timedelta(minutes=1)
NOTHING = {"fired": 0, "missed": 0, "failed": 0}


@pytest.fixture
def put(conn: Connection, clock: Clock) -> Callable[..., Row[Any]]:
    """A schedule of every minute, if nothing else is said, put now; the clock stands at half past a minute."""
    clock.freeze()
    clock.advance(90 - clock.now().timestamp() % 60)

    def put_one(name: str = "mails", task_type: str = "mail", **given: Any) -> Row[Any]:
        timed = {name: given.pop(name) for name in ("cron", "every", "time_zone", "anchor_at") if name in given}
        timed = timed or {"cron": "* * * * *"}
        task = {"task_type": task_type, "variables": given.pop("variables", {})}
        next_at = first_slot(timing(**timed), clock.now())
        return call.one(conn, "put_schedule", name=name, task=task, next_at=next_at, **timed, **given)

    return put_one


Put = Callable[..., Row[Any]]


def slots(conn: Connection, name: str = "mails") -> list[datetime]:
    """The slots that became tasks, as their idempotency keys name them, oldest first."""
    keys = conn.execute(
        text("select idempotency_key from celeriac.task where idempotency_key like :keys"),
        {"keys": f"schedule:{name}:%"},
    ).scalars()
    return sorted(datetime.fromisoformat(key.removeprefix(f"schedule:{name}:")) for key in keys)


def row(conn: Connection, name: str = "mails") -> Row[Any]:
    return conn.execute(text("select * from celeriac.schedules where name = :name"), {"name": name}).one()


def starts_by_second(conn: Connection) -> Counter[datetime]:
    return Counter(conn.execute(text("select date_trunc('second', created_at) from celeriac.task")).scalars())


def test_nothing_fires_before_its_slot_and_each_slot_fires_once(
    conn: Connection, tools: Tools, clock: Clock, put: Put
) -> None:
    put()
    assert run_schedules(tools) == NOTHING
    fired = []
    for _ in range(5):
        clock.advance(60)
        fired.append(clock.now() - timedelta(seconds=30))
        assert run_schedules(tools) == {"fired": 1, "missed": 0, "failed": 0}
        assert run_schedules(tools) == NOTHING
    assert slots(conn) == fired


def test_who_waits_for_a_task_is_woken(conn: Connection, tools: Tools, clock: Clock, put: Put, redis_url: str) -> None:
    put()
    clock.advance(60)
    with redis.Redis.from_url(redis_url) as client, client.pubsub(ignore_subscribe_messages=True) as subscription:
        subscription.subscribe(CHANNEL)
        wait_until(lambda: client.pubsub_numsub(CHANNEL)[0][1] == 1)
        heard: list[Any] = []
        run_schedules(tools)

        def one_came() -> bool:
            message = subscription.get_message(timeout=0.1)
            if message is not None:
                heard.append(message["data"])
            return b'["mail"]' in heard

        wait_until(one_came)


def test_a_slot_reaches_the_handler_as_a_variable_if_it_asks_for_it(
    conn: Connection, tools: Tools, clock: Clock, put: Put
) -> None:
    put(variables={"to": "all"}, slot_variable="due")
    clock.advance(60)
    run_schedules(tools)
    (slot,) = slots(conn)
    variables = conn.execute(text("select variables from celeriac.task")).scalar_one()
    assert json.loads(variables) == {"to": "all", "due": slot.isoformat().replace("+00:00", "Z")}


# After an outage


def test_after_an_outage_each_schedule_fires_once_and_then_at_its_next_slot(
    conn: Connection, tools: Tools, clock: Clock, put: Put
) -> None:
    for number in range(20):
        put(f"s{number}")
    clock.advance(600)
    assert run_schedules(tools) == {"fired": 20, "missed": 180, "failed": 0}
    assert {(line.fired, line.missed) for line in lines(conn)} == {(1, 9)}
    for _ in range(2):
        clock.advance(30)
        run_schedules(tools)
    for number in range(20):
        first, second = slots(conn, f"s{number}")
        assert second - first == MINUTE


def test_starts_are_spread_over_seconds_and_the_longest_waiting_come_first(
    conn: Connection, tools: Tools, clock: Clock, put: Put
) -> None:
    tools = with_settings(tools, schedule_starts_per_second=8)
    for number in range(20):
        put(f"s{number:02}")
    clock.advance(600)
    fired = []
    while (counts := run_schedules(tools)) != NOTHING:
        fired.append(counts["fired"])
        assert run_schedules(tools) == NOTHING, "the same second"
        clock.advance(1)
    assert fired == [8, 8, 4]
    assert max(starts_by_second(conn).values()) == 8


def test_all_fires_every_slot_in_order_without_keeping_others_waiting(
    conn: Connection, tools: Tools, clock: Clock, put: Put
) -> None:
    tools = with_settings(tools, schedule_starts_per_second=5)
    put("every one", catch_up="all")
    for number in range(3):
        put(f"s{number}")
    clock.advance(600)
    run_schedules(tools)
    assert [len(slots(conn, name)) for name in ("every one", "s0", "s1", "s2")] == [2, 1, 1, 1]
    first = slots(conn, "every one")[0]
    while (found := slots(conn, "every one"))[-1] < first + 9 * MINUTE:
        assert found == [first + number * MINUTE for number in range(len(found))]
        clock.advance(1)
        run_schedules(tools)
    assert (row(conn, "every one").missed, row(conn, "every one").fired) == (0, 10)


def test_none_lets_late_slots_go_and_counts_them(conn: Connection, tools: Tools, clock: Clock, put: Put) -> None:
    put(catch_up="none", cron="0 * * * *")
    clock.advance_to(row(conn).next_at + timedelta(hours=4, minutes=30))
    run_schedules(tools)
    assert (slots(conn), row(conn).missed, row(conn).next_at > clock.now()) == ([], 5, True)
    clock.advance((row(conn).next_at - clock.now()).total_seconds() + 5)
    run_schedules(tools)
    assert len(slots(conn)) == 1


def test_a_month_that_was_slept_through_does_not_move_the_next_ones(
    conn: Connection, tools: Tools, clock: Clock, put: Put
) -> None:
    anchor = datetime.fromisoformat("2030-10-31T08:00:00+00:00")
    clock.advance((anchor - clock.now()).total_seconds())
    put(every="P1M", anchor_at=anchor)
    for month in (1, 2, 3, 5, 6):  # the fourth is slept through
        clock.advance((timing(every="P1M", anchor_at=anchor).slot(month) - clock.now()).total_seconds() + 1)  # type: ignore[union-attr,operator]
        run_schedules(tools)
    assert [slot.strftime("%m-%d") for slot in slots(conn)] == ["11-30", "12-31", "01-31", "03-31", "04-30"]
    assert row(conn).missed == 1


def test_a_clock_that_is_set_back_fires_no_slot_again(conn: Connection, tools: Tools, clock: Clock, put: Put) -> None:
    put()
    for step in (60, -3600, 3600, 60):
        clock.advance(step)
        run_schedules(tools)
    assert len(slots(conn)) == len(set(slots(conn))) == 2


def test_an_anchor_far_ahead_waits(conn: Connection, tools: Tools, clock: Clock, put: Put) -> None:
    for name, days in (("a", 24.8), ("b", 24.9), ("c", 50), ("d", 36500)):
        put(name, every="PT1H", anchor_at=clock.now() + timedelta(days=days))
    assert run_schedules(tools) == NOTHING
    clock.advance(24.85 * 86400)
    run_schedules(tools)
    assert [len(slots(conn, name)) for name in "abcd"] == [1, 0, 0, 0]


# One bad schedule


def spoil(conn: Connection, name: str, **columns: Any) -> None:
    for column, value in columns.items():
        statement = f"update celeriac.schedule set {column} = :value where name = :name"
        conn.execute(text(statement), {"value": value, "name": name})


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"time_zone": "Atlantis/Capital"}, "time_zone"),
        ({"cron": "not a cron"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
    ],
)
def test_a_schedule_that_cannot_be_read_says_so_stands_still_and_stops_no_other(
    conn: Connection, tools: Tools, clock: Clock, put: Put, columns: dict[str, str], error: str
) -> None:
    put("bad")
    put("good")
    spoil(conn, "bad", **columns)
    for _ in range(3):
        clock.advance(60)
        run_schedules(tools)
    assert len(slots(conn, "good")) == 3
    bad = row(conn, "bad")
    assert (bad.next_at, bad.fired, bad.missed) == (None, 0, 1)
    assert error in bad.error
    put("bad")
    clock.advance(60)
    run_schedules(tools)
    assert (len(slots(conn, "bad")), row(conn, "bad").error) == (1, None)


def test_a_task_that_is_refused_costs_its_slot_and_stops_no_other(
    conn: Connection, tools: Tools, clock: Clock, put: Put
) -> None:
    put("bad", slot_variable="due", variables={"text": "x" * (2**20 - 30)})
    put("good")
    for _ in range(3):
        clock.advance(60)
        assert run_schedules(tools) == {"fired": 1, "missed": 1, "failed": 1}
    bad = row(conn, "bad")
    assert (bad.fired, bad.missed, bad.next_at > clock.now()) == (0, 3, True)
    assert bad.error.startswith("too_large: ")


def test_a_key_that_is_taken_costs_its_slot_only(conn: Connection, tools: Tools, clock: Clock, put: Put) -> None:
    made = put()
    key = f"schedule:mails:{made.next_at.isoformat().replace('+00:00', 'Z')}"
    item = {"task_type": "mail", "idempotency_key": key, "variables": {"not": "ours"}}
    call.rows(conn, "enqueue_tasks", tasks=call.json_list([item]))
    clock.advance(60)
    run_schedules(tools)
    assert row(conn).error.startswith("idempotency_conflict: ")
    clock.advance(60)
    run_schedules(tools)
    assert (row(conn).fired, row(conn).missed, row(conn).error) == (1, 1, None)


@pytest.mark.parametrize("broken", ["turn", "timing"])
def test_a_fault_of_ours_in_one_schedule_stops_no_other(
    conn: Connection, tools: Tools, clock: Clock, put: Put, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    put("bad", cron="*/1 * * * *", variables={"secret": "hunter2"})
    put("good")
    working = getattr(chore, broken)

    def fail_for_one(*args: Any, **given: Any) -> Any:
        if "*/1 * * * *" in (given.get("cron"), getattr(args[0], "expression", None) if args else None):
            raise ZeroDivisionError("hunter2")
        return working(*args, **given)

    monkeypatch.setattr(chore, broken, fail_for_one)
    clock.advance(60)
    run_schedules(tools)
    assert len(slots(conn, "good")) == 1
    assert "ZeroDivisionError" in row(conn, "bad").error
    assert "hunter2" not in row(conn, "bad").error


def test_a_fault_of_the_database_in_one_schedule_stops_no_other(
    conn: Connection, tools: Tools, clock: Clock, put: Put
) -> None:
    put("bad", task_type="poison")
    put("good")
    conn.execute(text("alter table celeriac.task add constraint bad_one check (task_type <> 'poison')"))
    clock.advance(60)
    assert run_schedules(tools) == {"fired": 1, "missed": 1, "failed": 1}
    assert (row(conn, "bad").next_at, "IntegrityError" in row(conn, "bad").error) == (None, True)
    assert len(slots(conn, "good")) == 1


def test_an_outage_is_nobodys_fault(
    conn: Connection, tools: Tools, clock: Clock, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    put()
    clock.advance(60)
    monkeypatch.setattr(Tools, "one", lambda *_, **__: (_ for _ in ()).throw(Unavailable("gone")))
    with pytest.raises(Unavailable):
        run_schedules(tools)
    monkeypatch.undo()
    assert (row(conn).error, row(conn).missed) == (None, 0)
    assert run_schedules(tools)["fired"] == 1


def test_a_schedule_that_somebody_holds_is_passed_by(conn: Connection, tools: Tools, clock: Clock, put: Put) -> None:
    put("held")
    put("free")
    clock.advance(60)
    with conn.engine.execution_options(isolation_level="READ COMMITTED").connect() as other:
        other.execute(text("select from celeriac.schedule where name = 'held' for update"))
        assert run_schedules(tools)["fired"] == 1
    assert run_schedules(tools)["fired"] == 1


# Many at once


@pytest.mark.parametrize("policy", ["one", "all", "none"])
def test_many_chores_at_once_fire_each_slot_exactly_once(
    conn: Connection, tools: Tools, clock: Clock, put: Put, policy: str
) -> None:
    for number in range(10):
        put(f"s{number}", catch_up=policy)
    crowd = [open_tools(tools.settings, make_app(tools.settings)) for _ in range(4)]
    expected = []
    for _ in range(8):
        clock.advance(60)
        expected.append(clock.now() - timedelta(seconds=30))
        go = threading.Barrier(len(crowd))

        def run(own: Tools, go: threading.Barrier = go) -> None:
            go.wait()
            run_schedules(own)

        threads = [threading.Thread(target=run, args=(own,)) for own in crowd]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        run_schedules(tools)  # what one had locked the others passed by
    for own in crowd:
        close_tools(own)
    for number in range(10):
        assert slots(conn, f"s{number}") == expected
        assert (row(conn, f"s{number}").fired, row(conn, f"s{number}").missed) == (8, 0)


def test_maintenance_workers_and_beats_that_are_killed_meanwhile_fire_each_slot_once(
    conn: Connection, settings: Any, start: StartProcess, clock: Clock
) -> None:
    """Schedules of every second, two maintenance workers and two beats as processes; twice one of each is killed."""
    clock.thaw()
    began = clock.now()
    for number in range(10):
        now = clock.now()
        call.one(
            conn, "put_schedule", name=f"s{number}", task={"task_type": "mail"}, next_at=first_slot(SECONDLY, now),
            cron="* * * * * *", catch_up="all",
        )  # fmt: skip
    beats = [start("beat"), start("beat")]
    workers = [until_ready(start("maintenance")), until_ready(start("maintenance"))]
    for _ in range(2):
        seen = sum(line.fired for line in lines(conn))
        wait_until(
            lambda seen=seen: sum(line.fired for line in lines(conn)) > seen + 30, 90, what="thirty more to fire"
        )
        workers.pop(0).kill()
        beats.pop().kill()
        workers.append(until_ready(start("maintenance")))
    wait_until(lambda: all(line.fired >= 8 for line in lines(conn)), 90, what="eight slots of each")
    for worker in workers:
        worker.kill()
    for line in lines(conn):
        found = slots(conn, line.name)
        assert found == [found[0] + timedelta(seconds=number) for number in range(len(found))], "no gap and no double"
        assert (found[0] > began, len(found), line.missed) == (True, line.fired, 0)


SECONDLY = timing(cron="* * * * * *")


def lines(conn: Connection) -> list[Row[Any]]:
    return list(conn.execute(text("select * from celeriac.schedules order by name")).all())


def test_a_run_that_is_killed_between_two_slots_goes_on_where_it_was(
    conn: Connection, tools: Tools, clock: Clock, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(catch_up="all")
    clock.advance(600)
    real, calls = Tools.one, []

    def die_at_the_fourth(self: Tools, function: str, /, **arguments: Any) -> Row[Any]:
        calls.append(function)
        if len(calls) == 4:
            raise SystemExit
        return real(self, function, **arguments)

    monkeypatch.setattr(Tools, "one", die_at_the_fourth)
    with pytest.raises(SystemExit):
        run_schedules(tools)
    monkeypatch.undo()
    assert len(slots(conn)) == 3
    run_schedules(tools)
    found = slots(conn)
    assert found == [found[0] + number * MINUTE for number in range(10)]


def test_more_than_a_batch_fires_in_one_run(
    conn: Connection, tools: Tools, clock: Clock, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chore, "BATCH", 2)
    for number in range(7):
        put(f"s{number}")
    clock.advance(60)
    assert run_schedules(tools)["fired"] == 7


def with_settings(tools: Tools, **changed: Any) -> Tools:
    return dataclasses.replace(tools, settings=dataclasses.replace(tools.settings, **changed))
