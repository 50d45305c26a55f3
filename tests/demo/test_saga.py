"""The saga: an account that can say no, and the whole of it with real servers and real trouble."""

import json
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from sqlalchemy import Connection, text

from app.bpmn.reader import read
from app.cli.main import run
from app.demo.saga import run as saga
from app.demo.saga import stage
from app.demo.saga.account import Fate, Verdict, compare, judge
from app.demo.saga.evidence import Completion, Effect, Evidence, Snapshot
from app.demo.saga.orders import CHARGE, COOLING_OFF_SECONDS, MODEL, SHIP, CustomerOrder, made_up
from app.demo.saga.outside import Ledger, read_ledger
from app.demo.saga.stage import HERE, Places, stock_command
from app.demo.saga.trouble import SagaTroublemaker
from app.deployment import topics_of
from app.dev.processes import console_command

ORDERS = 30
# Slow enough that the trouble meets workers in the middle of a task, quick enough for a test.
PAUSE = "--pause-ms=100"
SHELL_WORKER = ["/bin/sh", str(HERE / "stock.sh")]
HAPPY = ("reserve", "check_credit", "charge", "ship")
UNDONE = ("reserve", "check_credit", "charge", "refund", "void_credit", "release")


def history(steps: Iterable[str]) -> tuple[list[Effect], Evidence]:
    """Steps one after the other: each a task of its own, completed before the next one, and charge late enough."""
    effects: list[Effect] = []
    completions: dict[str, Sequence[Completion]] = {}
    at = 0.0
    for place, step in enumerate(steps, 1):
        at += COOLING_OFF_SECONDS if step == CHARGE else 0.01
        effects.append(Effect(step, f"task-{place}", place, at))
        completions[f"task-{place}"] = [Completion(place, Snapshot(place, place, frozenset()), at)]
    return effects, Evidence({}, completions, 0)


def verdict(steps: Iterable[str], refused_at: str | None = None) -> Verdict:
    effects, evidence = history(steps)
    told = "COMPLETED" if refused_at is None else "FAILED_COMPENSATED"
    return judge(CustomerOrder("o", refused_at), effects, evidence, [told])


def test_whole_orders_are_shipped_or_undone() -> None:
    assert verdict(HAPPY) == Verdict("o", Fate.SHIPPED)
    assert verdict(UNDONE, SHIP) == Verdict("o", Fate.UNDONE)
    assert verdict(("check_credit", "reserve", "release", "void_credit"), CHARGE) == Verdict("o", Fate.UNDONE)


@pytest.mark.parametrize(
    ("steps", "refused_at", "fate"),
    [
        (HAPPY[:3], None, Fate.HALF),
        (HAPPY, SHIP, Fate.HALF),
        (UNDONE, None, Fate.HALF),
        (UNDONE[:-1], SHIP, Fate.HALF),
        (UNDONE[:3], SHIP, Fate.HALF),
        ((*UNDONE[:2], "void_credit", "release", "refund"), CHARGE, Fate.HALF),
        ((), None, Fate.HALF),
        ((*HAPPY, "ship"), None, Fate.TWICE),
        ((*UNDONE, "refund"), SHIP, Fate.TWICE),
        (("reserve", *UNDONE), SHIP, Fate.TWICE),
        ((*UNDONE[:4], "release", "void_credit"), SHIP, Fate.OUT_OF_ORDER),
        ((*UNDONE[:3], "void_credit", "refund", "release"), SHIP, Fate.OUT_OF_ORDER),
        (("reserve", "charge", "check_credit", "ship"), None, Fate.OUT_OF_ORDER),
    ],
)
def test_what_is_missing_too_much_or_out_of_order_is_found(
    steps: tuple[str, ...], refused_at: str | None, fate: Fate
) -> None:
    found = verdict(steps, refused_at)
    assert (found.fate, bool(found.wrong)) == (fate, True)


def test_of_two_steps_that_did_not_see_each_other_either_may_be_undone_first() -> None:
    for undos in (("void_credit", "release"), ("release", "void_credit")):
        effects, evidence = history(("reserve", "check_credit", *undos))
        blind = Snapshot(1, 3, frozenset({1, 2}))
        completions = {
            name: [replace(one, saw=blind)] if name in ("task-1", "task-2") else [one]
            for name, (one,) in evidence.completions.items()
        }
        found = judge(
            CustomerOrder("o", CHARGE), effects, replace(evidence, completions=completions), ["FAILED_COMPENSATED"]
        )
        assert found.fate is Fate.UNDONE


def test_a_step_that_did_not_see_the_end_of_the_one_before_is_out_of_order() -> None:
    effects, evidence = history(UNDONE)
    blind = Completion(5, Snapshot(4, 5, frozenset({4})), effects[4].at)
    found = judge(
        CustomerOrder("o", SHIP),
        effects,
        replace(evidence, completions={**evidence.completions, "task-5": [blind]}),
        ["FAILED_COMPENSATED"],
    )
    assert found == Verdict("o", Fate.OUT_OF_ORDER, "void_credit was completed before refund had been")


def test_a_task_that_is_completed_twice_or_never_and_a_charge_that_does_not_wait_are_found() -> None:
    effects, evidence = history(HAPPY)
    order = CustomerOrder("o")
    doubled = {**evidence.completions, "task-2": evidence.completions["task-2"] * 2}
    open_still = {name: one for name, one in evidence.completions.items() if name != "task-4"}
    assert judge(order, effects, replace(evidence, completions=doubled), ["COMPLETED"]).fate is Fate.TWICE
    assert judge(order, effects, replace(evidence, completions=open_still), ["COMPLETED"]).fate is Fate.HALF
    late = {**evidence.completions, "task-3": [replace(evidence.completions["task-3"][0], at=1000.0)]}
    found = judge(order, effects, replace(evidence, completions=late), ["COMPLETED"])
    assert found.wrong == "ship was done before charge was completed"
    hasty = {name: [replace(done, at=0.0) for done in one] for name, one in evidence.completions.items()}
    at_once = [replace(effect, at=0.0) for effect in effects]
    found = judge(order, at_once, replace(evidence, completions=hasty), ["COMPLETED"])
    assert "too early" in found.wrong


@pytest.mark.parametrize("told", [[], ["ACTIVE"], ["FAILED_COMPENSATED"], ["COMPLETED", "COMPLETED"]])
def test_celeriac_must_say_what_has_happened(told: list[str]) -> None:
    effects, evidence = history(HAPPY)
    assert judge(CustomerOrder("o"), effects, evidence, told).fate is Fate.HALF


def test_a_snapshot_of_postgres_tells_what_was_committed_before() -> None:
    snapshot = Snapshot.read("10:20:12,15")
    assert [xid for xid in (9, 10, 12, 14, 15, 19, 20, 25) if snapshot.saw(xid)] == [9, 10, 14, 19]
    assert Snapshot.read("7:7:") == Snapshot(7, 7, frozenset())


def test_systems_outside_know_a_key_again_and_nothing_else(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    calls = [("k1", 5), ("k1", 6), ("k2", 7)]
    answers = [ledger.take("reserve", {"order": "o", "key": key, "fencing_token": token}) for key, token in calls]
    assert [answer["again"] for answer in answers] == [False, True, False]
    assert answers[0]["reference"] == answers[1]["reference"] != answers[2]["reference"]
    entries = read_ledger(tmp_path / "ledger")
    assert [(entry.key, entry.fencing_token, entry.again) for entry in entries] == [
        ("k1", 5, False),
        ("k1", 6, True),
        ("k2", 7, False),
    ]


def test_the_model_has_no_fault_and_every_tenth_order_is_refused() -> None:
    reading = read(MODEL.read_bytes())
    assert (reading.report.findings, len(reading.models)) == ([], 1)
    assert len(topics_of(reading.models[0].graph)) == 7
    refused = [(order.id, order.refused_at) for order in made_up(40) if order.refused_at]
    assert refused == [("order-00010", SHIP), ("order-00020", CHARGE), ("order-00030", SHIP), ("order-00040", CHARGE)]


def executable(file: Path, says: str) -> None:
    file.write_text(f"#!/bin/sh\necho {says}\n")
    file.chmod(0o755)


def test_the_stock_worker_is_in_javascript_or_else_for_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["demo", "saga", "--orders", "1"]) == 2
    assert "needs Node" in capsys.readouterr().err
    executable(tmp_path / "curl", "")
    executable(tmp_path / "node", "v16.20.2")
    assert stock_command() == SHELL_WORKER
    executable(tmp_path / "node", "v20.1.0")
    assert stock_command() == [str(tmp_path / "node"), str(HERE / "stock.mjs")]


@pytest.mark.skipif(shutil.which("node") is None and shutil.which("curl") is None, reason="needs Node or curl")
def test_orders_are_shipped_or_undone_and_the_account_holds(tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    command = [console_command("celeriac"), "demo", "saga", f"--orders={ORDERS}", "--svg", pictures, PAUSE, "--json"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
    assert answer.returncode == 0, answer.stderr + answer.stdout
    assert answer.stdout.count("\n") == 1
    account = json.loads(answer.stdout)
    assert list(account) == [
        *("orders", "shipped", "undone", "half", "twice", "out_of_order"),
        *("calls_repeated", "leases_lost", "stale_writes_refused", "seconds"),
    ]
    assert [account[name] for name in ("orders", "shipped", "undone")] == [ORDERS, ORDERS - 3, 3]
    assert [account[name] for name in ("half", "twice", "out_of_order")] == [0, 0, 0]
    assert account["calls_repeated"] >= 1
    assert account["leases_lost"] >= 1
    assert account["stale_writes_refused"] >= 1
    for happened in (
        *("SIGSTOP", "SIGKILL", "the API was killed", "Redis was flushed", "Postgres was stopped"),
        *("stock-1 reported with an old fencing token", "till-1 reported with an old fencing token"),
    ):
        assert happened in answer.stderr
    drawn = {file.name for file in pictures.iterdir()}
    assert drawn == {
        *("all.svg", "halfway.svg", "order-00001-shipped.svg"),
        *("order-00010-undone-from-ship.svg", "order-00020-undone-from-charge.svg"),
    }
    undone = ElementTree.parse(pictures / "order-00020-undone-from-charge.svg")
    assert "1 times done" in "".join(undone.getroot().itertext())


@pytest.mark.skipif(shutil.which("curl") is None, reason="the worker for the shell needs curl")
def test_an_effect_that_is_missing_and_one_too_many_are_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def tampered(conn: Connection, orders: Sequence[CustomerOrder], places: Places) -> Any:
        conn.execute(
            text("insert into demo.effect select * from demo.effect where order_id = 'order-00010' and step = 'refund'")
        )
        conn.execute(text("delete from demo.effect where order_id = 'order-00001' and step = 'charge'"))
        return compare(conn, orders, places)

    monkeypatch.setattr(saga, "compare", tampered)
    monkeypatch.setattr(SagaTroublemaker, "act", lambda self: self.say("no trouble"))
    monkeypatch.setattr(stage, "stock_command", lambda: SHELL_WORKER)
    code = run(["demo", "saga", "--orders", "10"])
    captured = capsys.readouterr()
    shown, told = captured.out, captured.err + captured.out
    assert code == 1, told
    assert "HALF         order-00001: charge was not done" in shown, told
    assert "TWICE        order-00010: refund was done 2 times" in shown, told
    assert "The promise does not hold." in shown


def test_options_of_the_copy_job_in_front_of_saga_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--files", "3", "saga"]) == 2
    assert "saga" in capsys.readouterr().err


def test_nobody_waits_longer_than_a_lease(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "saga", "--pause-ms", "5000"]) == 2
    assert "--pause-ms" in capsys.readouterr().err


def test_pictures_that_cannot_be_written_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert run(["demo", "saga", "--orders", "1", "--svg", str(tmp_path / "file")]) == 2
    assert "--svg" in capsys.readouterr().err
