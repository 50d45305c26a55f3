"""The outcome of a wait becomes a step, if the task waits for it still."""

from tests.db.clerk import Clerk
from tests.db.waits import at_rest, for_signal, for_time, send, steps, suspend

END = "select celeriac.end_wait(cast(:id as uuid), :branch, 1, null, celeriac.now())"


def test_a_wait_is_ended_once(clerk: Clerk) -> None:
    task = at_rest(clerk, for_signal())
    assert [clerk.scalar(END, id=task.task_id, branch="") for _ in range(2)] == [True, False]
    assert len(steps(clerk, task.task_id)) == 1


def test_what_a_task_does_not_wait_for_any_more_is_not_ended(clerk: Clerk) -> None:
    """Whoever found the wait looked before the task was woken and went to rest again, for something else."""
    task = at_rest(clerk, for_time(branch="1.0"), for_signal(branch="1.1"))
    send(clerk)
    suspend(clerk, clerk.fetch()[0], for_signal("other", ordinal=2))
    assert clerk.scalar(END, id=task.task_id, branch="1.0") is False
    assert clerk.scalar("select armed from celeriac.wait where branch = '1.0'") is False
