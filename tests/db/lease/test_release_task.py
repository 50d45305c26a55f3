"""release_task: LOCKED -> READY. What it refuses of a lease: test_refused_writes.py."""

from db.errors import LeaseLost
from tests.clock import Clock
from tests.db.clerk import Clerk


def test_the_task_is_ready_in_its_old_place_and_the_attempt_is_given_back(clerk: Clerk) -> None:
    first = clerk.enqueue()
    ready = clerk.queue(first)
    clerk.enqueue()
    (task,) = clerk.fetch()
    answer = clerk.release(task)
    assert (answer.task_id, answer.state) == (first, "READY")
    assert ready is not None
    assert clerk.queue(first) == ready | {"fencing_token": task.fencing_token, "resumed": True}
    (again,) = clerk.fetch(worker_id="w2")
    assert (again.task_id, again.attempt, again.retries) == (first, 1, 3)


def test_it_stands_in_the_timeline(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held()
    clerk.release(task)
    (line,) = clerk.timeline(task.task_id)
    assert (line["kind"], line["worker_id"], line["fencing_token"]) == ("released", "w1", task.fencing_token)
    assert (line["attempt"], line["started_at"]) == (1, clock.now())


def test_the_same_release_again_gives_the_same_answer(clerk: Clerk) -> None:
    task = clerk.held()
    first = clerk.release(task)
    before = clerk.everything()
    assert clerk.release(task) == first
    assert clerk.everything() == before
    clerk.fetch(worker_id="w2")
    before = clerk.everything()
    assert clerk.release(task) == first
    assert clerk.everything() == before


def test_a_repeat_by_someone_else_or_without_the_token_is_refused(clerk: Clerk) -> None:
    task = clerk.held()
    clerk.release(task)
    for changed in ({"worker_id": "w2"}, {"principal": "eve"}, {"fencing_token": None}):
        with clerk.refuses(LeaseLost):
            clerk.release(task, **changed)


def test_graceful_stops_use_up_no_budget(clerk: Clerk) -> None:
    """Case B11: the control."""
    clerk.enqueue(retries=1, policy={"expirations": 0})
    for _ in range(6):
        clerk.release(clerk.fetch()[0])
    (task,) = clerk.fetch()
    assert (task.attempt, task.retries) == (1, 1)


def test_it_rings(clerk: Clerk) -> None:
    clerk.celery_type()
    task = clerk.held()
    clerk.rings()
    clerk.release(task)
    assert clerk.rings() == [("fleet", "mail")]
