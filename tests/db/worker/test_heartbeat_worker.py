"""heartbeat_worker: a worker -> the worker, alive now."""

import pytest

from db.errors import NotFound
from tests.clock import Clock
from tests.db.clerk import Clerk


def test_it_is_alive_for_another_30_seconds(clerk: Clerk, clock: Clock) -> None:
    clerk.one("register_worker", worker_id="w1")
    live = "select count(*) from celeriac.live_workers"
    clock.advance(29)
    assert clerk.scalar(live) == 1
    clock.advance(2)
    assert clerk.scalar(live) == 0
    clock.freeze()
    assert tuple(clerk.one("heartbeat_worker", worker_id="w1")) == ("w1", clock.now())
    assert clerk.scalar(live) == 1
    assert clerk.scalar("select count(*) from celeriac.worker_list") == 1


@pytest.mark.parametrize("changed", [{"worker_id": "w2"}, {"principal": "eve"}], ids=["unknown", "another principal's"])
def test_a_worker_that_is_not_registered_is_not_found(clerk: Clerk, changed: dict[str, str]) -> None:
    clerk.one("register_worker", worker_id="w1")
    with clerk.refuses(NotFound):
        clerk.one("heartbeat_worker", **({"worker_id": "w1"} | changed))
