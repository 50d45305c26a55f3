"""`celeriac test-database`: lives exactly as long as its standard input."""

import signal
import subprocess
from collections.abc import Iterator

import psutil
import psycopg
import pytest

from app.dev.processes import console_command
from app.dev.waiting import wait_until


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [console_command("celeriac"), "test-database"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def url_of(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def below(child: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(child.pid).children(recursive=True)


def end_of(processes: list[psutil.Process]) -> None:
    wait_until(lambda: not any(process.is_running() for process in processes), what="the end of all servers")


def test_it_prints_the_url_of_a_migrated_database_that_can_be_copied(child: subprocess.Popen[str]) -> None:
    url = url_of(child)
    with psycopg.connect(url.replace("/celeriac", "/postgres"), autocommit=True) as connection:
        connection.execute("create database mine template celeriac")
    with psycopg.connect(url.replace("/celeriac", "/mine")) as connection:
        assert connection.execute("select count(*) from celeriac.task_list").fetchone() == (0,)


def test_it_ends_with_its_input_and_leaves_nothing(child: subprocess.Popen[str]) -> None:
    url_of(child)
    servers = below(child)
    assert servers
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(30) == 0
    end_of(servers)


def test_it_ends_when_its_input_has_ended_before_the_server_was_up(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(60) == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_it_ends_in_order_at_a_signal(child: subprocess.Popen[str], how: signal.Signals) -> None:
    url_of(child)
    servers = below(child)
    child.send_signal(how)
    assert child.wait(30) == 0
    end_of(servers)


def test_killed_it_leaves_nothing_either(child: subprocess.Popen[str]) -> None:
    url_of(child)
    servers = below(child)
    child.kill()
    end_of(servers)
