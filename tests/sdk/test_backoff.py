"""Pauses between tries: never below 0, never above the cap, however often it failed."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from celeriac._backoff import Backoff


@given(st.integers(1, 2**63), st.floats(1, allow_infinity=False), st.sampled_from([0.0, 0.2, 1e308]))
@example(28, 1e12, 0.2)
def test_a_pause_is_between_nothing_and_the_cap(failures: int, factor: float, first: float) -> None:
    """Case B18: the policy of a step is the user's, whatever its factor."""
    backoff = Backoff(first, factor)
    assert 0 <= backoff.pause(failures) <= backoff.longest(failures) <= backoff.cap_seconds
    assert backoff.longest(failures) <= backoff.longest(failures + 1)


def test_a_factor_close_to_one_gets_to_the_cap_too() -> None:
    slow = Backoff(first_seconds=1, factor=1.05, cap_seconds=60)
    assert slow.longest(40) == 1.05**39
    assert slow.longest(100) == 60


@pytest.mark.parametrize("failures", range(1, 40))
def test_steps_never_fall(failures: int) -> None:
    assert Backoff().longest(failures) <= Backoff().longest(failures + 1)


def test_pauses_are_spread_over_the_whole_step() -> None:
    pauses = [Backoff(first_seconds=1).pause(1) for _ in range(1000)]
    assert min(pauses) < 0.1
    assert max(pauses) > 0.9
