import logging
import threading
from collections.abc import Iterator

import pytest
import redis
from sqlalchemy import Connection, text

from app.bell import CHANNEL
from app.dev.postgres import EmbeddedPostgres
from app.dev.waiting import wait_until
from db import call
from db.errors import Unavailable
from tests.clock import Clock
from tests.workers.ring_rows import enqueue, register_fleet_type
from workers.chore import Chore, Counts, Tools
from workers.expire_leases import expire_leases
from workers.fire_timers import fire_timers
from workers.maintain_history import maintain_history
from workers.promote_due import promote_due
from workers.purge_ended import purge_ended
from workers.ring_stale import ring_stale
from workers.roster import CHORES
from workers.runner import Runner, run_once

DAY_SECONDS = 24 * 60 * 60


@pytest.fixture
def heard(redis_url: str) -> Iterator[redis.client.PubSub]:
    with redis.Redis.from_url(redis_url) as client, client.pubsub(ignore_subscribe_messages=True) as subscription:
        subscription.subscribe(CHANNEL)
        wait_until(lambda: client.pubsub_numsub(CHANNEL)[0][1] == 1)
        yield subscription


def next_wake_up(heard: redis.client.PubSub) -> bytes:
    messages: list[bytes] = []

    def one_came() -> bool:
        message = heard.get_message(timeout=0.1)
        if message is not None:
            messages.append(message["data"])
        return bool(messages)

    wait_until(one_came)
    return messages[0]


def fetch(conn: Connection, count: int, lease_ms: int) -> None:
    taken = call.rows(
        conn, "fetch_tasks", worker_id="w", task_types=["mail"], max_tasks=count, lock_duration_ms=lease_ms
    )
    assert len(taken) == count


def states(conn: Connection) -> dict[str, int]:
    depths = conn.execute(text("select state, sum(tasks)::int as tasks from celeriac.depths group by state")).all()
    return {row.state: row.tasks for row in depths}


def test_expired_leases_are_given_back_and_waiting_workers_are_woken(
    conn: Connection, tools: Tools, clock: Clock, heard: redis.client.PubSub
) -> None:
    enqueue(conn, *["mail"] * 3)
    fetch(conn, 3, lease_ms=60_000)
    assert expire_leases(tools) == {"expired": 0, "failed": 0, "rearmed": 0}
    clock.advance(61)
    assert expire_leases(tools)["expired"] == 3
    assert next_wake_up(heard) == b'["mail"]'
    assert states(conn) == {"READY": 3}


def test_more_leases_than_a_batch_holds_expire_in_one_run(
    conn: Connection, tools: Tools, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.expire_leases.BATCH", 2)
    enqueue(conn, *["mail"] * 7)
    fetch(conn, 7, lease_ms=1000)
    clock.advance(2)
    assert expire_leases(tools)["expired"] == 7


def test_a_row_that_somebody_holds_is_left_and_taken_by_the_next_run(
    conn: Connection, tools: Tools, clock: Clock
) -> None:
    enqueue(conn, *["mail"] * 3)
    fetch(conn, 3, lease_ms=1000)
    clock.advance(2)
    with conn.engine.execution_options(isolation_level="READ COMMITTED").connect() as other:
        other.execute(text("select from celeriac.queue order by task_id limit 1 for update"))
        assert expire_leases(tools)["expired"] == 2
        assert expire_leases(tools)["expired"] == 0
    assert expire_leases(tools)["expired"] == 1


def test_the_clock_of_this_machine_decides_nothing(
    conn: Connection, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue(conn, "mail")
    fetch(conn, 1, lease_ms=60_000)
    for shift in (600, -600):
        monkeypatch.setattr("time.time", lambda real=1e9, shift=shift: real + shift)
        assert expire_leases(tools)["expired"] == 0


def test_due_tasks_become_ready_and_waiting_workers_are_woken(
    conn: Connection, tools: Tools, clock: Clock, heard: redis.client.PubSub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.promote_due.BATCH", 2)
    tasks = [{"task_type": "mail", "delay_ms": 60_000}] * 5
    call.rows(conn, "enqueue_tasks", tasks=call.json_list(tasks))
    assert promote_due(tools) == {"promoted": 0}
    clock.advance(61)
    assert promote_due(tools) == {"promoted": 5}
    assert next_wake_up(heard) == b'["mail"]'


def test_tasks_whose_time_has_come_are_woken_and_so_are_waiting_workers(
    conn: Connection, tools: Tools, clock: Clock, heard: redis.client.PubSub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.fire_timers.BATCH", 2)
    enqueue(conn, *["mail"] * 5)
    sleep = [{"kind": "timer", "name": "sleep", "ordinal": 1, "delay_ms": 60_000}]
    for task in call.rows(conn, "fetch_tasks", worker_id="w", task_types=["mail"], max_tasks=5):
        write = {"task_id": task.task_id, "worker_id": "w", "fencing_token": task.fencing_token}
        call.rows(conn, "suspend_task", **write, waits=call.json_list(sleep))
    assert fire_timers(tools) == {"fired": 0}
    clock.advance(61)
    assert fire_timers(tools) == {"fired": 5}
    assert next_wake_up(heard) == b'["mail"]'
    assert states(conn) == {"READY": 5}


def test_only_tasks_past_their_retention_are_purged(
    conn: Connection, tools: Tools, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.purge_ended.BATCH", 2)
    enqueue(conn, *["mail"] * 5, "open")
    for row in conn.execute(text("select task_id from celeriac.task_list where task_type = 'mail'")).all():
        call.one(conn, "cancel_task", task_id=row.task_id)
    clock.advance((tools.settings.retention_days - 1) * DAY_SECONDS)
    enqueue(conn, "young")
    assert purge_ended(tools) == {"purged": 0, "instances": 0}
    clock.advance(2 * DAY_SECONDS)
    assert purge_ended(tools) == {"purged": 5, "instances": 0}
    assert {row.task_type for row in conn.execute(text("select task_type from celeriac.task_list"))} == {
        "open",
        "young",
    }


def test_the_timeline_has_its_next_partitions_and_drops_the_old_ones(tools: Tools, clock: Clock) -> None:
    first = maintain_history(tools)["created"]
    assert maintain_history(tools) == {"created": 0, "dropped": 0}
    clock.advance((tools.settings.history_days + 100) * DAY_SECONDS)
    later = maintain_history(tools)
    assert later["created"] > 0
    assert later["dropped"] > 0
    assert first >= 0


def test_types_that_nobody_was_told_of_are_rung_again(conn: Connection, tools: Tools, clock: Clock) -> None:
    register_fleet_type(conn, "mail", "fleet")
    enqueue(conn, "mail")
    assert ring_stale(tools) == {"rung": 0}
    tools.rows("settle_outbox", published=[row.id for row in conn.execute(text("select id from celeriac.outbox"))])
    clock.advance(11)
    assert ring_stale(tools) == {"rung": 1}


@pytest.mark.parametrize("chore", CHORES, ids=lambda chore: chore.name)
def test_a_chore_goes_on_after_postgres_was_restarted_under_it(
    chore: Chore, tools: Tools, postgres: EmbeddedPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    assert run_once(chore, tools) is not None
    postgres.restart("immediate")
    wait_until(lambda: run_once(chore, tools) is not None, what="the chore to work again")


@pytest.mark.parametrize("chore", CHORES, ids=lambda chore: chore.name)
def test_a_chore_that_meets_an_outage_says_so_in_one_line_and_ends(
    chore: Chore, tools: Tools, postgres: EmbeddedPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    postgres.stop("immediate")
    assert run_once(chore, tools) is None
    assert [record.levelname for record in caplog.records if record.name == "workers.runner"] == ["WARNING"]


def test_connections_that_saw_a_read_only_server_are_dropped(conn: Connection, tools: Tools) -> None:
    chore = Chore("promote_due", 1, promote_due)
    before = backend(tools)
    set_read_only(conn, "on")
    try:
        wait_until(lambda: run_once(chore, tools) is None, what="the server to turn read-only")
        with pytest.raises(Unavailable):
            promote_due(tools)
    finally:
        set_read_only(conn, "off")
    wait_until(lambda: run_once(chore, tools) is not None, what="the chore to work again")
    assert backend(tools) != before, "a fail-over would have left it on the old primary"


def backend(tools: Tools) -> int:
    with tools.engine.connect() as conn:
        return conn.execute(text("select pg_backend_pid()")).scalar_one()


def set_read_only(conn: Connection, value: str) -> None:
    conn.execute(text("set transaction_read_only = off"))
    conn.execute(text(f"alter system set default_transaction_read_only = {value}"))
    conn.execute(text("select pg_reload_conf()"))


def test_a_chore_that_breaks_does_not_end_its_runner(tools: Tools, caplog: pytest.LogCaptureFixture) -> None:
    runs: list[int] = []

    def break_once(tools: Tools) -> Counts:
        runs.append(1)
        if len(runs) == 1:
            raise ZeroDivisionError
        return {"done": 1}

    chore = Chore("break_once", 1, break_once)
    runner = Runner([chore], tools)
    with caplog.at_level(logging.INFO, "workers.runner"):
        runner.run(chore)
        runner.run(chore)
    assert "break_once failed" in caplog.text
    assert "break_once: 1 done" in caplog.text


def test_a_chore_that_is_asked_for_while_it_runs_runs_once_more_and_never_twice_at_once(tools: Tools) -> None:
    entered, go_on = threading.Semaphore(0), threading.Semaphore(0)
    running = []
    most_at_once = []

    def run_slowly(tools: Tools) -> Counts:
        running.append(1)
        most_at_once.append(len(running))
        entered.release()
        go_on.acquire()
        running.pop()
        return {}

    chore = Chore("slow", 1, run_slowly)
    runner = Runner([chore], tools)
    first = threading.Thread(target=runner.run, args=(chore,))
    first.start()
    entered.acquire()
    for _ in range(5):
        runner.run(chore)  # returns at once: somebody is at it
    go_on.release()
    entered.acquire()  # the five are answered by one more run
    go_on.release()
    first.join(10)
    assert not first.is_alive()
    assert most_at_once == [1, 1]


def test_chores_are_overdue_until_beat_asks_for_them(tools: Tools) -> None:
    chore = Chore("nothing", 60, lambda tools: {})
    runner = Runner([chore], tools)
    assert runner.overdue() == [chore], "nobody has run it since this process started"
    runner.tick(chore)
    assert runner.overdue() == []


def test_a_run_stops_between_two_calls_when_its_process_stops(tools: Tools) -> None:
    rounds = tools.rounds(1000)
    assert next(rounds) == 0
    tools.stopping.set()
    assert list(rounds) == []
