"""The connections of a fleet process."""

import os
import re

import psycopg
import pytest
from sqlalchemy import Connection, text

from celeriac.durable import _database
from celeriac.durable._database import Database
from celeriac.errors import ConnectionFailed, Invalid, UnexpectedAnswer
from tests.workers.tcp_proxy import TcpProxy

MINE = "select pg_backend_pid() as pid"


def test_calls_one_after_another_use_one_connection(fleet_url_db: str) -> None:
    database = Database(fleet_url_db.replace("postgresql://", "postgresql+psycopg://"))
    assert database.rows(MINE) == database.rows(MINE)
    database.close()


def test_a_connection_that_was_lost_while_idle_is_replaced_unnoticed(fleet_url_db: str, conn: Connection) -> None:
    database = Database(fleet_url_db)
    [before] = database.rows(MINE)
    conn.execute(text("select pg_terminate_backend(:pid, 5000)"), before)
    assert database.rows(MINE) != [before]
    database.close()


def test_a_half_open_connection_is_given_up(fleet_url_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case B51: a proxy whose kernel still acknowledges, while nothing is passed on."""
    monkeypatch.setattr(_database, "ANSWER_SECONDS", 0.5)
    with TcpProxy(int(re.findall(r":(\d+)", fleet_url_db)[-1])) as proxy:
        database = Database(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{proxy.port}", fleet_url_db))
        [before] = database.rows(MINE)
        assert proxy.swallow() == 1
        assert database.rows(MINE) != [before]
        with database.borrow() as connection:  # what a handler sends may take as long as it likes
            connection.execute("select pg_sleep(0.8)")
        database.close()


def test_a_refusal_is_raised_as_ours_and_keeps_the_connection(fleet_url_db: str) -> None:
    database = Database(fleet_url_db)
    before = database.rows(MINE)
    with pytest.raises(Invalid, match="name"):
        database.rows("select celeriac.register_task_type(name => '')")
    assert database.rows(MINE) == before
    database.close()


def test_a_fault_is_told_from_an_outage(fleet_url_db: str) -> None:
    database = Database(fleet_url_db)
    with pytest.raises(UnexpectedAnswer):
        database.rows("select nonsense")
    with pytest.raises(ConnectionFailed):
        Database("postgresql://127.0.0.1:1/nowhere").rows(MINE)


@pytest.mark.parametrize("value", ["1e200000", "[" * 200_000 + "]" * 200_000, "not json"])
def test_what_postgres_cannot_store_is_told_from_an_outage(fleet_url_db: str, value: str) -> None:
    """Else it would be told again and again, for as long as the lease lives."""
    database = Database(fleet_url_db)
    with pytest.raises(Invalid, match="Postgres does not take it"):
        database.rows("select cast(%(value)s as jsonb)", value=value)
    database.close()


def test_a_forgotten_connection_in_a_child_of_a_fork_leaves_that_of_the_parent_alone(fleet_url_db: str) -> None:
    database = Database(fleet_url_db)
    before = database.rows(MINE)
    child = os.fork()
    if child == 0:
        del database._idle[:]
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert database.rows(MINE) == before
    database.close()


PREPARED = "select count(*) as prepared from pg_prepared_statements"


def test_statements_are_prepared_where_postgres_itself_is_at_the_other_end(fleet_url_db: str) -> None:
    database = Database(fleet_url_db)
    for _ in range(4):
        database.rows(MINE)
    assert database.rows(PREPARED) == [{"prepared": 1}]
    database.close()


def test_no_statement_is_prepared_behind_a_pooler(fleet_url_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A pooler answers a new connection with a process number that it has made up.
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", 1)
    database = Database(fleet_url_db)
    for _ in range(4):
        database.rows(MINE)
    assert database.rows(PREPARED) == [{"prepared": 0}]
    database.close()


def test_a_borrowed_connection_with_an_open_transaction_is_not_lent_again(fleet_url_db: str) -> None:
    database = Database(fleet_url_db)
    with database.borrow() as connection:
        before = connection.info.backend_pid
    with database.borrow() as connection:
        assert connection.info.backend_pid == before
        connection.execute("begin")
    assert connection.closed
    assert database.rows("select pg_backend_pid() <> %(before)s as other", before=before) == [{"other": True}]
    database.close()
