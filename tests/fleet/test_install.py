"""What install takes, what it refuses, and what it leaves alone."""

import subprocess
import sys
from pathlib import Path

import pytest
from celery import Celery

from app.dev.processes import ProcessEnded
from celeriac import Context, DurableTask, task
from celeriac.celery import install
from tests.fleet.conftest import StartFleet

NOWHERE = "postgresql://127.0.0.1:1/nowhere"


@task("print")
def print_page(ctx: Context) -> None:
    """Nothing but a declaration."""


def user_app() -> Celery:
    return Celery("users", broker="redis://127.0.0.1:1/0", set_as_current=False)


def declare(version: int, queue: str | None = None) -> DurableTask:
    return task("print", version=version, queue=queue)(print_page.handler)


def test_install_adds_one_task_and_connects_to_nothing() -> None:
    app = user_app()
    before = set(app.tasks)
    install(app, database_url=NOWHERE, tasks=[print_page])
    assert set(app.tasks) - before == {"celeriac.ring"}
    assert app.conf.broker_transport_options == {}


def test_the_ring_task_is_of_one_app_only() -> None:
    install(user_app(), database_url=NOWHERE, tasks=[print_page])
    assert "celeriac.ring" not in user_app().tasks


def test_a_second_install_into_one_app_is_refused() -> None:
    app = user_app()
    install(app, database_url=NOWHERE, tasks=[print_page])
    with pytest.raises(ValueError, match="already"):
        install(app, database_url=NOWHERE, tasks=[print_page])


def test_a_slice_without_tasks_would_ring_for_ever_and_is_refused() -> None:
    with pytest.raises(ValueError, match="slice_tasks"):
        install(user_app(), database_url=NOWHERE, tasks=[print_page], slice_tasks=0)


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        ([], "tasks must name at least one"),
        ([declare(1), declare(1)], "twice"),
        ([declare(1, "one"), declare(2, "two")], "different queues"),
    ],
)
def test_declarations_that_contradict_each_other_are_refused(tasks: list[DurableTask], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        install(user_app(), database_url=NOWHERE, tasks=tasks)


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"FLEET_LEASE": "-1"}, "'gated': lease must be"),
        ({"FLEET_ODD_TYPE": "un\u200bprintable"}, "name must be 1 to 255 printable characters"),  # Postgres says so
    ],
)
def test_a_worker_with_settings_that_cannot_be_ends_and_says_why(
    start_fleet: StartFleet, setting: dict[str, str], reason: str
) -> None:
    with pytest.raises(ProcessEnded, match=reason):
        start_fleet("solo", **setting)


def test_the_sdk_without_its_celery_extra_does_not_need_celery() -> None:
    program = "import sys; sys.modules['celery'] = sys.modules['psycopg'] = None; import celeriac"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parent)
