"""Case B49: everything through PgBouncer in transaction mode, five server connections."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from db import call
from db.engine import async_engine, sync_engine
from tests.db.clerk import Clerk
from tests.db.pgbouncer import SERVER_CONNECTIONS


@pytest.fixture
def pooled(pooled_url: str) -> Iterator[Engine]:
    engine = sync_engine(pooled_url, pool_size=20)
    yield engine
    engine.dispose()


def test_every_transition_works(pooled: Engine) -> None:
    with pooled.connect() as first, pooled.connect() as second:
        asker, worker = Clerk(first), Clerk(second)
        asker.celery_type()
        worker.one("register_worker", worker_id="w1", task_types=["mail"])
        for _ in range(10):  # often enough for a driver that prepares statements to have begun
            task = worker.held(idempotency_key=None)
            worker.extend(task)
            worker.release(task)
            (task,) = worker.fetch()
            worker.fail(task, retries=0)
            asker.one("redrive_task", task_id=task.task_id)
            worker.complete(worker.fetch()[0], variables={"n": 1})
            asker.cancel(asker.enqueue())
            asker.one("expire_leases")
            asker.one("promote_due")
            rows = asker.rows("take_outbox", channel="ring")
            asker.one("settle_outbox", published=[row.id for row in rows])
            asker.rows("ready_types", task_types=["mail"])
            assert {row["state"] for row in asker.query("select state from celeriac.task_list")} == {
                "COMPLETED",
                "CANCELED",
            }


def test_twenty_workers_share_five_connections_and_lose_and_double_nothing(pooled: Engine, clerk: Clerk) -> None:
    clerk.enqueue_items([{"task_type": "mail"}] * 400)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with pooled.connect() as connection:
                worker = Clerk(connection)
                while tasks := worker.fetch(worker_id=f"w{number}", max_tasks=3):
                    for task in tasks:
                        worker.complete(task, worker_id=f"w{number}", variables={"by": number})
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert errors == []
    assert clerk.scalar("select count(*) from celeriac.task where state = 'COMPLETED'") == 400
    seen = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    assert clerk.scalar(seen) <= SERVER_CONNECTIONS


async def test_async_calls_work_too(pooled_url: str) -> None:
    engine = async_engine(pooled_url)
    async with engine.connect() as connection:
        for _ in range(10):
            await call.arows(connection, "enqueue_tasks", tasks=call.json_list([{"task_type": "mail"}]))
        tasks = await call.arows(connection, "fetch_tasks", worker_id="w1", task_types=["mail"], max_tasks=10)
    await engine.dispose()
    assert len(tasks) == 10


def test_a_transaction_of_the_callers_holds_together(pooled_url: str, clerk: Clerk) -> None:
    engine = sync_engine(pooled_url, isolation_level="READ COMMITTED")
    with engine.connect() as connection:
        Clerk(connection).enqueue()
        connection.rollback()
        kept = Clerk(connection).enqueue()
        connection.commit()
    engine.dispose()
    assert [row["task_id"] for row in clerk.query("select task_id from celeriac.task_list")] == [kept]


def test_no_setting_leaks_to_the_next_client(pooled: Engine) -> None:
    """Functions set plan options for themselves; a server connection is another client's a moment later."""
    with pooled.connect() as connection:
        client = Clerk(connection)
        client.enqueue()
        client.fetch()
        for name in ("enable_seqscan", "enable_hashjoin", "plan_cache_mode", "search_path"):
            assert client.query(
                "select setting = reset_val as same from pg_settings where name = :name", name=name
            ) == [{"same": True}]
