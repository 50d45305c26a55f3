"""The holder's own, cautious idea of a lease."""

from collections.abc import Callable

import pytest

from celeriac import Canceled, LeaseLost, StaleToken, Task, TaskContext, _clock
from celeriac._lease import Lease
from celeriac._outcome import Completed, Failed, Stopped, error_text, raised, returned, sendable

TASK = Task("0190", "media.copy", 1, {}, 7, 3000, "2030-01-01T00:00:00Z", 3, 1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Time stands at 1000 and moves by hand."""
    now = [1000.0]
    monkeypatch.setattr(_clock, "now", lambda: now[0])
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def test_it_is_over_when_its_time_is_over_even_if_nobody_could_tell(clock: Callable[[float], None]) -> None:
    lease = Lease(TASK, began_at=1000.0)
    task = TaskContext(lease)
    clock(2.9)
    task.check()
    clock(0.2)
    assert task.lease_lost.is_set()
    with pytest.raises(LeaseLost, match="ran out"):
        task.check()


def test_it_is_extended_at_each_third_from_when_the_extension_was_asked_for(clock: Callable[[float], None]) -> None:
    lease = Lease(TASK, began_at=1000.0)
    assert lease.next_extension_in == pytest.approx(1.0)
    clock(1.5)
    lease.extended(asked_at=1001.0, lock_duration_ms=3000)
    assert lease.remaining == pytest.approx(2.5)
    assert lease.next_extension_in == pytest.approx(0.5)


def test_a_late_answer_never_shortens_it_and_an_end_is_for_good(clock: Callable[[float], None]) -> None:
    lease = Lease(TASK, began_at=1000.0)
    lease.extended(asked_at=999.0, lock_duration_ms=1000)
    assert lease.remaining == pytest.approx(3.0)
    lease.end(StaleToken("taken"))
    lease.end(Canceled("canceled"))
    lease.extended(asked_at=1000.0, lock_duration_ms=3_600_000)
    assert isinstance(lease.ended, StaleToken)
    assert (lease.lost.is_set(), lease.canceled.is_set()) == (True, False)


def test_listeners_are_told_once_and_latecomers_at_once(clock: Callable[[float], None]) -> None:
    lease, told = Lease(TASK, began_at=1000.0), list[str]()
    lease.when_stopped(lambda: told.append("first"))
    clock(10)
    assert lease.ended
    assert lease.ended
    lease.when_stopped(lambda: told.append("late"))
    assert told == ["first", "late"]


def test_an_outcome_after_the_end_is_reported_only_if_it_is_a_result(clock: Callable[[float], None]) -> None:
    lease = Lease(TASK, began_at=1000.0)
    assert isinstance(raised(lease, "w", ValueError("x")), Failed)
    clock(10)
    assert isinstance(returned(lease, "w", {}), Completed)
    assert isinstance(raised(lease, "w", ValueError("x")), Stopped)
    assert isinstance(raised(lease, "w", LeaseLost("x")), Stopped)


def test_an_error_text_names_places_and_causes_but_no_values() -> None:
    def inner() -> None:
        password = "hunter2"
        raise KeyError(len(password))

    try:
        try:
            inner()
        except KeyError as error:
            raise RuntimeError("cannot log in") from error
    except RuntimeError as error:
        text = error_text(error)
    lines = text.splitlines()
    assert lines[0] == "RuntimeError: cannot log in"
    assert "caused by KeyError: 7" in lines
    assert any("in inner: raise KeyError(len(password))" in line for line in lines)


def test_an_error_that_cannot_be_shown_still_has_a_text() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RecursionError("no")

    assert "its message cannot be shown: RecursionError" in error_text(Broken())


def test_an_error_text_is_made_fit_to_be_sent() -> None:
    assert sendable("a\0b\ud800c") == "a\N{REPLACEMENT CHARACTER}b?c"
    assert len(sendable("ä" * 10_000).encode()) == 8192
    assert len(sendable("x" + "ä" * 10_000).encode()) == 8191
    assert sendable("") == "(no message)"
