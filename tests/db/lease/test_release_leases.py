"""release_leases: a worker that must stop at once gives back all that it holds, in one call."""

from db.errors import Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk


def release(clerk: Clerk, worker_id: str = "w1") -> int:
    return int(clerk.one("release_leases", worker_id=worker_id).released)


def test_all_that_the_worker_holds_is_ready_again_and_the_attempts_are_given_back(clerk: Clerk) -> None:
    tasks = [clerk.held(), clerk.held("scan"), clerk.held()]
    before = [clerk.queue(task.task_id) for task in tasks]
    assert release(clerk) == 3
    for task, was in zip(tasks, before, strict=True):
        hot = clerk.queue(task.task_id)
        assert hot is not None
        assert was is not None
        assert (hot["state"], hot["attempts"], hot["resumed"], hot["lease_owner"]) == ("READY", 0, True, None)
        assert (hot["turn_at"], hot["fencing_token"]) == (was["turn_at"], was["fencing_token"])
        assert [line["kind"] for line in clerk.timeline(task.task_id)] == ["released"]
    assert release(clerk) == 0


def test_the_leases_of_others_stay(clerk: Clerk) -> None:
    clerk.enqueue()
    clerk.enqueue()
    clerk.fetch(worker_id="w2")
    clerk.fetch(worker_id="w1", principal="eve")
    before = clerk.everything()
    assert release(clerk) == 0
    assert clerk.everything() == before


def test_an_expired_lease_is_lost_and_not_given_back(clerk: Clerk, clock: Clock) -> None:
    task = clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    assert release(clerk) == 0
    assert clerk.state(task.task_id) == "LOCKED"


def test_it_is_bounded_and_can_be_called_again(clerk: Clerk) -> None:
    clerk.enqueue_items([{"task_type": "mail"}] * 1200)
    clerk.fetch(max_tasks=1000)
    clerk.fetch(max_tasks=200)
    assert [release(clerk) for _ in range(3)] == [1000, 200, 0]


def test_it_rings_once_a_type(clerk: Clerk) -> None:
    clerk.celery_type()
    for _ in range(3):
        clerk.held()
    clerk.rings()
    release(clerk)
    assert clerk.rings() == [("fleet", "mail")]


def test_a_worker_without_a_name_is_refused(clerk: Clerk) -> None:
    with clerk.refuses(Invalid, "worker_id"):
        release(clerk, worker_id="")
