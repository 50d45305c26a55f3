"""register_compensation, read_compensations: what must be undone. Their lease: ../step/test_under_a_lease.py."""

from typing import Any

import pytest

from db.errors import Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.ledger import Ledger
from tests.db.overlap import overlap


def test_it_is_written_down_in_order(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held()
    numbers = [ledger.register(task, 1, "refund"), ledger.register(task, 3, "unpack", "2.0"), ledger.register(task, 3)]
    assert numbers == [1, 2, 3]
    assert [tuple(row) for row in ledger.compensations(task)] == [
        (3, "", 3, "refund", "REGISTERED", None),
        (2, "2.0", 3, "unpack", "REGISTERED", None),
        (1, "", 1, "refund", "REGISTERED", None),
    ]
    assert clerk.query("select * from celeriac.compensations where number = 2") == [
        {
            "task_id": task.task_id, "task_type": "mail", "number": 2, "branch": "2.0", "ordinal": 3, "name": "unpack",
            "state": "REGISTERED", "error": None, "registered_at": clock.now(), "ended_at": None,
        }
    ]  # fmt: skip


def test_the_same_place_again_has_the_same_number(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    task = clerk.held(lock_duration_ms=1000)
    ledger.register(task, 1)
    ledger.register(task, 2)
    clock.advance(2)
    (second,) = clerk.fetch()
    before = clerk.everything()
    assert [ledger.register(second, 2), ledger.register(second, 1)] == [2, 1]
    assert clerk.everything() == before


def test_another_name_at_that_place_is_refused(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.register(task, 1, "refund")
    with clerk.refuses(Invalid, "name") as caught:
        ledger.register(task, 1, "unpack")
    assert caught.value.detail == {"branch": "", "ordinal": 1, "name": "refund"}


def test_tasks_number_their_own(clerk: Clerk, ledger: Ledger) -> None:
    ledger.register(clerk.held())
    task = clerk.held()
    assert ledger.compensations(task) == []
    assert ledger.register(task) == 1


@pytest.mark.parametrize(
    "field, said",
    [
        ("branch", {"branch": "undo"}), ("branch", {"branch": None}), ("ordinal", {"ordinal": 0}),
        ("ordinal", {"ordinal": None}), ("name", {"name": " "}), ("name", {"name": None}),
    ],
)  # fmt: skip
def test_bad_places_are_refused_by_field(clerk: Clerk, ledger: Ledger, field: str, said: dict[str, Any]) -> None:
    task = clerk.held()
    with clerk.refuses(Invalid, field):
        ledger.register(task, **said)


def test_a_task_that_is_being_undone_registers_nothing_new(clerk: Clerk, ledger: Ledger) -> None:
    task = ledger.undoing()
    with clerk.refuses(Invalid, "task_id"):
        ledger.register(task, 2)


@pytest.mark.parametrize("keep", [True, False])
def test_of_two_at_once_each_has_a_number_of_its_own(clerk: Clerk, database_url: str, keep: bool) -> None:
    task = clerk.held()
    numbers = overlap(
        database_url,
        lambda clerk: Ledger(clerk).register(task, 1),
        lambda clerk: Ledger(clerk).register(task, 2),
        keep=keep,
    )
    assert numbers == ((1, 2) if keep else (1, 1))


def test_it_holds_up_a_cancel_so_that_nothing_registered_is_forgotten(
    clerk: Clerk, ledger: Ledger, database_url: str
) -> None:
    task = clerk.held()
    _, canceled = overlap(
        database_url,
        lambda clerk: Ledger(clerk).register(task),
        lambda clerk: clerk.cancel(task.task_id, compensate=True),
    )
    assert canceled.state == "UNDOING"
