"""The pages for users say what is true: their code runs, and so does what they say about it."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import Connection, text

import celeriac
from tests.durable.carrier import Carrier

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/durable-tasks.md"

Effect = Callable[..., str]
Effects = Callable[[], list[str]]


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def declared() -> dict[str, Any]:
    """What the code blocks of the page declare; the functions that they leave to the reader are added to it."""
    namespace: dict[str, Any] = {}
    for block in blocks(PAGE):
        exec(block, namespace)
    return namespace


def test_the_readmes_two_files_run_as_they_are_written(
    carrier: Carrier, conn: Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELERIAC_DATABASE_URL", database_url)
    monkeypatch.setenv("CELERIAC_REDIS_URL", "redis://127.0.0.1/0")
    shop = ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop", shop)
    shop_py, place_py, *_ = blocks(ROOT / "README.md")
    exec(shop_py, shop.__dict__)
    carrier.install(shop.ship)
    exec(place_py, {})
    conn.execute(text("grant all on shipped to public"))
    task_id = str(conn.execute(text("select task_id from celeriac.task_list")).scalar_one())
    carrier.run()
    assert carrier.state(task_id) == "WAITING"
    with carrier.killed_at("transaction.commit.after"):
        carrier.signal("picked-up", key="7")
    carrier.take_over()
    assert carrier.result(task_id) == {"label": "label of 7"}
    assert conn.execute(text("select * from shipped")).all() == [("7", "label of 7")]


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
