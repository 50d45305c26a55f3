"""What can go wrong around a command: each is one line, names what to look at, and never shows a password."""

import subprocess
from importlib.metadata import version

import pytest

from app.cli.failures import one_line
from app.dev.ports import free_port
from app.dev.processes import console_command
from tests.cli.conftest import Celeriac

STATE_COMMANDS = [
    ["tasks", "list"],
    ["types", "list"],
    ["keys", "list"],
    ["workers", "list"],
    ["outbox", "list"],
    ["migrate"],
]


@pytest.mark.parametrize("arguments", STATE_COMMANDS, ids=" ".join)
def test_a_database_that_is_down_is_exit_code_3(
    celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("CELERIAC_DATABASE_URL", f"postgresql://me:hunter2@127.0.0.1:{free_port()}/celeriac")
    refused = celeriac(*arguments)
    assert refused.code == 3
    assert refused.out == ""
    assert refused.err.count("\n") == 1
    assert "CELERIAC_DATABASE_URL" in refused.err
    assert "hunter2" not in refused.err


def test_a_database_that_does_not_exist_is_exit_code_3(
    celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    monkeypatch.setenv("CELERIAC_DATABASE_URL", database_url + "_not_there")
    assert celeriac("tasks", "list").code == 3


def test_a_database_that_is_not_migrated_says_what_to_do(
    celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch, empty_database_url: str
) -> None:
    monkeypatch.setenv("CELERIAC_DATABASE_URL", empty_database_url)
    refused = celeriac("tasks", "list")
    assert refused.code == 1
    assert "celeriac migrate" in refused.err
    assert celeriac("migrate").code == 0
    assert celeriac("migrate").code == 0
    assert celeriac("tasks", "list").code == 0


def test_a_role_without_the_right_is_told_so(
    celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch, fleet_url_db: str
) -> None:
    monkeypatch.setenv("CELERIAC_DATABASE_URL", fleet_url_db)
    refused = celeriac("keys", "list")
    assert refused.code == 1
    assert "may not" in refused.err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CELERIAC_DATABASE_URL", ""),
        ("CELERIAC_DATABASE_URL", "mysql://me:hunter2@db/x"),
        ("CELERIAC_PORT", "eighty"),
        ("CELERIAC_PROT", "8080"),
    ],
)
def test_a_wrong_setting_is_exit_code_2_and_named(
    celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    refused = celeriac("tasks", "list")
    assert refused.code == 2
    assert name in refused.err
    assert "hunter2" not in refused.err


def test_a_traceback_is_shown_only_to_those_who_ask_for_debugging(
    celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELERIAC_DATABASE_URL", f"postgresql://me@127.0.0.1:{free_port()}/celeriac")
    assert "Traceback" not in celeriac("tasks", "list").err
    monkeypatch.setenv("CELERIAC_LOG_LEVEL", "debug")
    assert "Traceback" in celeriac("tasks", "list").err


@pytest.mark.parametrize(
    "text",
    [
        "cannot reach postgresql://me:hunter2@db/x",
        "redis://:hunter2@cache/0 is down",
        "bad dsn: host=db password=hunter2 user=me",
        "bad dsn: password = 'hunter2 and more'",
    ],
)
def test_a_password_never_gets_into_a_message(text: str) -> None:
    assert "hunter2" not in one_line(text)


def test_a_field_is_named_once(celeriac: Celeriac) -> None:
    assert celeriac("types", "set", "a*").err == "celeriac: name must not hold *: patterns use it (invalid)\n"


def test_help_names_every_exit_code_and_does_not_load_the_house() -> None:
    loaded = "import sys; from app.cli.main import run; code = run(['--help']); "
    loaded += "print([m for m in ('sqlalchemy', 'celery', 'fastapi', 'rich') if m in sys.modules], file=sys.stderr)"
    python = console_command("python")
    answer = subprocess.run([python, "-c", loaded], capture_output=True, text=True, check=True)
    assert answer.stderr.strip() == "[]"
    assert all(f"{code} " in " ".join(answer.stdout.split()) for code in range(5))


def test_a_reader_that_leaves_early_is_no_failure() -> None:
    answer = subprocess.run(
        ["/bin/sh", "-c", f"{console_command('celeriac')} --help | true"], capture_output=True, text=True, check=True
    )
    assert answer.stderr == ""


def test_the_version_is_that_of_the_distribution(celeriac: Celeriac) -> None:
    assert celeriac("--version").out.strip() == version("celeriac-server")
