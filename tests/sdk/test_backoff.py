"""Pauses between tries: never below 0, never above the cap, however often it failed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celeriac._backoff import Backoff


@given(st.integers(1, 2**63), st.floats(1, 1000))
def test_a_pause_is_between_nothing_and_the_cap(failures: int, factor: float) -> None:
    backoff = Backoff(factor=factor)
    assert 0 <= backoff.pause(failures) <= backoff.longest(failures) <= backoff.cap_seconds


@pytest.mark.parametrize("failures", range(1, 40))
def test_steps_never_fall(failures: int) -> None:
    assert Backoff().longest(failures) <= Backoff().longest(failures + 1)


def test_pauses_are_spread_over_the_whole_step() -> None:
    pauses = [Backoff(first_seconds=1).pause(1) for _ in range(1000)]
    assert min(pauses) < 0.1
    assert max(pauses) > 0.9
