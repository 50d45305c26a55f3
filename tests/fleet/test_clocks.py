"""Case B05: fleets and the servers beside them on machines whose clocks are wrong. Only the database's clock counts."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from app.dev.processes import Process, console_command
from app.settings import Settings
from tests.fleet.conftest import StartFleet
from tests.fleet.sights import all_completed, enqueue, started, task

FOUND = sorted(Path("/usr").glob("lib*/**/faketime/libfaketimeMT.so.1"))
pytestmark = pytest.mark.skipif(not FOUND, reason="there is no libfaketime here (Debian: apt-get install faketime)")


def clock(offset: str) -> dict[str, str]:
    """The environment of a process whose time of day is off; the clocks that only count are right."""
    return {"LD_PRELOAD": str(FOUND[0]), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@pytest.fixture
def dispatcher(settings: Settings, tmp_path: Path) -> Iterator[Process]:
    """Whoever takes leases back believes that all of them ended an hour ago."""
    environment = {**os.environ, **settings.to_env(), "CELERIAC_STATE_DIR": str(tmp_path / "state"), **clock("+1h")}
    process = Process([console_command("celeriac"), "maintenance"], tmp_path / "maintenance.log", env=environment)
    yield process.start()
    process.kill()


def test_no_live_lease_is_taken_and_no_dead_one_is_kept(
    start_fleet: StartFleet, conn: Connection, database_url: str, open_gate: Callable[[str], None]
) -> None:
    ahead = start_fleet("threads", FLEET_LEASE="2", **clock("+10m"))
    behind = start_fleet("threads", FLEET_LEASE="2", **clock("-10m"))
    ids = enqueue(database_url, "gated", *[{"gate": "open"}] * 4)
    started(conn, 4)
    doomed = {task_id for task_id in ids if task(conn, task_id).worker_id.startswith("fleet2@")}
    behind.send(signal.SIGKILL)
    open_gate("other")
    enqueue(database_url, "gated", {"gate": "other"})
    start_fleet("prefork", FLEET_LEASE="2", **clock("+2h"))
    started(conn, 5 + len(doomed))
    open_gate("open")
    all_completed(conn, 5)
    assert {task_id for task_id in ids if task(conn, task_id).expirations} == doomed
    assert {task(conn, task_id).attempts - task(conn, task_id).expirations for task_id in ids} == {1}
    assert ahead.is_running
