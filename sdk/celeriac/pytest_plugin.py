"""Fixtures for tests of durable tasks; pytest finds them wherever `celeriac` is installed.

Not inside of celeriac.testing, which needs psycopg: pytest imports this in every project that has `celeriac`, also for
its HTTP client alone. Nothing is started before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from celeriac.durable._declaration import DurableTask
    from celeriac.testing import Clock, Runner, RunnerMaker

DATABASE_URL = "celeriac_database_url"
COMMAND = "celeriac_command"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(DATABASE_URL, "URL of a migrated database to copy for each test (default: an embedded Postgres)")
    parser.addini(
        COMMAND, "path of the `celeriac` command, which starts the embedded Postgres (default: it is looked for)"
    )
    parser.getgroup("celeriac").addoption(
        "--celeriac-database-url", metavar="URL", help="goes before the setting celeriac_database_url"
    )


@pytest.fixture(scope="session")
def celeriac_template_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A migrated database, once a session, that every test's own is copied from.

    Override it to add the tables of your application: take the URL, create them there, and return it.
    """
    from celeriac.testing import DatabaseServer

    config = request.config
    given = config.getoption("--celeriac-database-url") or config.getini(DATABASE_URL)
    if given:
        yield str(given)
        return
    with DatabaseServer(config.getini(COMMAND) or None) as server:
        yield server.url


@pytest.fixture
def celeriac_database_url(celeriac_template_url: str) -> Iterator[str]:
    """A database of this test's own, as its owner: migrated, and with whatever else the template holds."""
    from celeriac.testing import copied

    with copied(celeriac_template_url) as url:
        yield url


@pytest.fixture
def celeriac_clock(celeriac_database_url: str) -> Iterator[Clock]:
    """The clock of this test's database: `celeriac_clock.advance(days=30)`."""
    import psycopg

    from celeriac.testing import Clock

    with psycopg.connect(celeriac_database_url, autocommit=True) as connection:
        yield Clock(connection)


@pytest.fixture
def celeriac_runner(celeriac_database_url: str) -> Iterator[RunnerMaker]:
    """Makes a worker in the test's own process: `runner = celeriac_runner(approve)`, then `runner.run()`."""
    from celeriac.testing import Runner

    with ExitStack() as open_ones:

        def make(*tasks: DurableTask, transactions: Any = None) -> Runner:
            return open_ones.enter_context(Runner(celeriac_database_url, tasks, transactions=transactions))

        yield make
