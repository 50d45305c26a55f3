import re
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text

from db import call
from db.engine import sync_engine
from db.errors import Unavailable
from tests.workers.tcp_proxy import TcpProxy
from workers.deadline import deadline


@pytest.fixture
def engine(proxy: TcpProxy, database_url: str) -> Iterator[Engine]:
    engine = sync_engine(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{proxy.port}", database_url))
    yield engine
    engine.dispose()


def test_a_call_that_is_never_answered_ends_as_an_outage(engine: Engine, proxy: TcpProxy) -> None:
    with pytest.raises(Unavailable), engine.connect() as conn:  # noqa: PT012
        call.one(conn, "promote_due", max_tasks=1)
        proxy.swallow()
        with deadline(conn, 0.2):
            call.one(conn, "promote_due", max_tasks=1)
    with engine.connect() as conn, deadline(conn, 10):
        assert call.one(conn, "promote_due", max_tasks=1).promoted == 0, "the next call has a new connection"


def test_a_statement_that_takes_too_long_ends_as_an_outage(engine: Engine) -> None:
    with pytest.raises(Unavailable), engine.connect() as conn, call.refusals(), deadline(conn, 0.2):
        conn.execute(text("select pg_sleep(60)"))


def test_a_call_within_its_time_is_left_alone(engine: Engine) -> None:
    with engine.connect() as conn:
        for _ in range(3):
            with deadline(conn, 30):
                assert conn.execute(text("select 1")).scalar_one() == 1
