"""What tests of limits look at: who holds a slot, who is blocked, and whether the tables agree."""

from collections.abc import Iterator

import pytest

from tests.db.clerk import Clerk


@pytest.fixture(autouse=True)
def nothing_is_wrong_with_the_slots_at_the_end(clerk: Clerk) -> Iterator[None]:
    yield
    assert clerk.query("select * from celeriac.slot_faults") == []
