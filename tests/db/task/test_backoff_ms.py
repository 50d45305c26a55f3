"""backoff_ms: how long a failed task rests."""

from uuid import UUID, uuid4

import pytest

from tests.db.clerk import Clerk

CENTURY_MS = 3_155_760_000_000
FAILURES = [0, 1, 2, 10, 31, 40, 62, 63, 64, 1023, 1024, 2000, 100_000, 2**31 - 1]


def rests(clerk: Clerk, task_id: UUID, first: int, factor: float, cap: int, jitter: float) -> list[int]:
    statement = """
        select celeriac.backoff_ms(:task_id, failures, :first, :factor, :cap, :jitter) as ms
          from unnest(cast(:failures as int[])) with ordinality f (failures, place) order by place"""
    values = {"task_id": task_id, "first": first, "factor": factor, "cap": cap, "jitter": jitter}
    return [row["ms"] for row in clerk.query(statement, failures=FAILURES, **values)]


def test_it_doubles_up_to_the_cap(clerk: Clerk) -> None:
    assert rests(clerk, uuid4(), 1000, 2.0, 300_000, 0.0)[:4] == [1000, 1000, 2000, 300_000]


@pytest.mark.parametrize("first", [0, 1, 1000, CENTURY_MS])
@pytest.mark.parametrize("factor", [1.0, 1.0001, 2.0, 100.0])
@pytest.mark.parametrize("cap", [0, 300_000, CENTURY_MS])
def test_rests_never_fall_never_pass_the_cap_and_nothing_overflows(
    clerk: Clerk, first: int, factor: float, cap: int
) -> None:
    """Case B18: for every number of failures."""
    for jitter in (0.0, 0.1, 1.0):
        found = rests(clerk, uuid4(), first, factor, cap, jitter)
        assert found == sorted(found)
        assert found[0] >= 0
        assert found[-1] <= cap


def test_a_factor_close_to_one_gets_to_the_cap_too(clerk: Clerk) -> None:
    assert rests(clerk, uuid4(), 1000, 1.0001, 300_000, 0.0)[-1] == 300_000


def test_jitter_spreads_tasks_and_only_shortens(clerk: Clerk) -> None:
    found = {rests(clerk, uuid4(), 1000, 2.0, 300_000, 0.5)[1] for _ in range(30)}
    assert len(found) > 10
    assert min(found) >= 500
    assert max(found) <= 1000


def test_the_same_task_rests_the_same(clerk: Clerk) -> None:
    task_id = uuid4()
    assert rests(clerk, task_id, 1000, 2.0, 300_000, 0.5) == rests(clerk, task_id, 1000, 2.0, 300_000, 0.5)
