"""Real fleets: `celery worker` processes of a user's app, with the dispatcher that rings for them."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from app.dev.processes import Process, console_command
from app.settings import Settings

StartFleet = Callable[..., Process]

BUSINESS = """
create table effect (task_id uuid primary key, fencing_token bigint not null);
create table started (task_id uuid not null, fencing_token bigint not null, attempt int not null, pid int not null);
create table gate (name text primary key);
create table plain (number int primary key);
"""


@pytest.fixture
def broker_url(redis_url: str) -> str:
    """What rings go through; a file of tests may say otherwise."""
    return redis_url


@pytest.fixture
def dispatcher(settings: Settings, broker_url: str, tmp_path: Path) -> Iterator[Process]:
    """`celeriac maintenance`: sends rings, and takes back what dead workers held."""
    command = [console_command("celeriac"), "maintenance"]
    environment = {
        **settings.to_env(),
        "CELERIAC_BROKER_URL": broker_url,
        "CELERIAC_STATE_DIR": str(tmp_path / "state"),
    }
    process = Process(command, tmp_path / "maintenance.log", env=environment)
    yield process.start()
    process.kill()


@pytest.fixture
def start_fleet(
    dispatcher: Process, conn: Connection, database_url: str, fleet_url_db: str, broker_url: str, tmp_path: Path
) -> Iterator[StartFleet]:
    """`start_fleet("prefork", concurrency=2, FLEET_LEASE="1")`: a worker that is ready, with a name of its own."""
    conn.exec_driver_sql(BUSINESS)
    numbers = itertools.count(1)
    running: list[Process] = []

    def start_one(pool: str, *more: str, concurrency: int = 2, **environment: str) -> Process:
        name = f"fleet{next(numbers)}"
        options = [f"--pool={pool}", f"--concurrency={concurrency}", f"--hostname={name}@test", "--queues=fleet", *more]
        process = Process(
            [console_command("celery"), "-A", "fleet_app", "worker", "--loglevel=INFO", "--without-mingle", *options],
            tmp_path / f"{name}.log",
            name=name,
            cwd=Path(__file__).parent,
            env={
                **os.environ,
                "FLEET_DATABASE_URL": fleet_url_db,
                "FLEET_BUSINESS_URL": database_url,
                "FLEET_BROKER_URL": broker_url,
                "FLEET_LEASE": "30",
                "FLEET_SLICE_TASKS": "50",
                "FLEET_SLICE_SECONDS": "1",
                **environment,
            },
        )
        running.append(process.start())
        process.wait_for_output("ready.")
        return process

    yield start_one
    for process in running:
        process.kill()


@pytest.fixture
def open_gate(conn: Connection) -> Callable[[str], None]:
    return lambda name: conn.execute(text("insert into gate values (:name)"), {"name": name})
