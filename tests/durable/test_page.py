"""The page for users says what is true: its code runs, and so does what it says about it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import celeriac
from tests.durable.carrier import Carrier

PAGE = Path(__file__).parents[2] / "docs/durable-tasks.md"

Effect = Callable[..., str]
Effects = Callable[[], list[str]]


def declared() -> dict[str, Any]:
    """What the code blocks of the page declare; the functions that they leave to the reader are added to it."""
    namespace: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, namespace)
    return namespace


def test_the_first_example_runs(carrier: Carrier, assets: Callable[[], list[str]]) -> None:
    approved: list[bool] = []
    copies: list[str] = []
    page = declared()
    Copied: Any = page["Copied"]  # noqa: N806

    def copy_file(plan: str) -> Copied:
        copies.append(plan)
        return Copied(path=plan)

    def find_copy(plan: str) -> celeriac.Done | celeriac.NotDone:
        return celeriac.Done(Copied(path=plan)) if plan in copies else celeriac.NotDone()

    page |= {
        "make_plan": lambda order: f"/assets/{order.id}",
        "is_approved": lambda number: bool(approved),
        "copy_file": copy_file,
        "find_copy": find_copy,
    }
    task_id = carrier.start(page["copy"], page["Order"](id=7, card="visa"))
    assert carrier.state(task_id) == "WAITING"
    approved.append(True)
    with carrier.killed_at("operation.settle.before"):
        carrier.signal("approval:7")
    carrier.take_over()
    assert carrier.result(task_id) == {"path": "/assets/7"}
    assert (copies, assets()) == (["/assets/7"], ["/assets/7"])


def test_the_trip_is_undone(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    def charge(order: Any) -> None:
        raise celeriac.Fatal("no such card")

    page = declared()
    page |= {
        "book_flight": lambda order: effect("flight"),
        "book_hotel": lambda order: effect("hotel"),
        "cancel_flight": lambda order: effect("cancel flight"),
        "cancel_hotel": lambda order: effect("cancel hotel"),
        "charge": charge,
    }
    task_id = carrier.start(page["trip"], {"id": 7, "card": "none"})
    assert (carrier.state(task_id), effects()) == ("FAILED", ["flight", "hotel", "cancel hotel", "cancel flight"])


def test_every_call_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"ctx\.(\w+)", PAGE.read_text()))
    assert named >= {"step", "operation", "transaction", "wait_for", "gather", "check"}
    assert [name for name in named if not hasattr(celeriac.Context, name) and name != "log"] == []
