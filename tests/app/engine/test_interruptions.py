"""Work that ends while it is interrupted: one comes first, the other is told so. None is accepted and lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text

from app.dev.waiting import wait_until
from app.engine import advance
from db import call
from db.errors import Canceled, NotFound, Refused
from tests.app.engine.conftest import Desk, flow, model, task
from tests.db.clerk import Clerk
from tests.db.overlap import Call, overlap

ROOTS = '<message id="M" name="m"/><signal id="S" name="s"/><error id="E" errorCode="E"/>'
EVENTS = {
    "message": '<messageEventDefinition messageRef="M"/>',
    "signal": '<signalEventDefinition signalRef="S"/>',
    "timer": "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>",
}
WORK = task("a") + '<sequenceFlow id="a-b" sourceRef="a" targetRef="b"/><userTask id="b"/>'


def process(event: str, *, inside: bool, interrupts: bool = True, activity: str = WORK) -> bytes:
    """An activity `a`, then `b`; the event leads from `a`, or from the subprocess around both, to `u`."""
    host = "sub" if inside else "a"
    if inside:
        activity = f'<subProcess id="sub"><startEvent id="is"/>{activity}{flow("is", "a")}</subProcess>'
    boundary = (
        f'<boundaryEvent id="on" attachedToRef="{host}" cancelActivity="{str(interrupts).lower()}">{EVENTS[event]}'
        '</boundaryEvent><userTask id="u"/>'
    )
    return model('<startEvent id="s"/>' + activity + flow("s", host) + boundary + flow("on", "u"), ROOTS)


def thrown(kind: str) -> Call:
    return lambda clerk: clerk.rows("throw_event", kind=kind, name=kind[0])


def fired(clerk: Clerk) -> Any:
    wait = clerk.scalar("select uid from celeriac.event_wait where kind = 'timer'")
    return clerk.one("fire_event_timer", wait_uid=wait)


def fell_due(clerk: Clerk) -> Any:
    clerk.run("update celeriac.event_wait set due_at = celeriac.now() where kind = 'timer'")
    return clerk.rows("fire_event_timers")


INTERRUPTIONS: list[tuple[str, Call]] = [
    ("message", thrown("message")), ("signal", thrown("signal")), ("timer", fired), ("timer", fell_due),
]  # fmt: skip
X = call.Json(json.dumps({"x": 1}))


def completed(row: Any) -> Call:
    return lambda clerk: clerk.one("complete_task", task_id=row.task_id, worker_id="w", variables=X)


def threw(row: Any) -> Call:
    return lambda clerk: clerk.one("throw_task", task_id=row.task_id, worker_id="w", error_code="E", variables=X)


def completed_external(row: Any) -> Call:
    return lambda clerk: clerk.one("complete_external_task", task_id=row.task_id, worker_id="w", variables=X)


def threw_external(row: Any) -> Call:
    return lambda clerk: clerk.one(
        "throw_external_task", task_id=row.task_id, worker_id="w", error_code="E", variables=X
    )


ENDS: list[tuple[Callable[[Any], Call], type[Refused]]] = [
    (completed, Canceled), (threw, Canceled), (completed_external, NotFound), (threw_external, NotFound),
]  # fmt: skip


def held(desk: Desk, content: bytes) -> tuple[str, Any]:
    """An instance, and its task in the hands of a worker."""
    desk.deploy(content)
    return desk.start(), desk.fetch("a")


@pytest.mark.parametrize("inside", [False, True], ids=["its own", "around it"])
@pytest.mark.parametrize(("event", "interrupt"), INTERRUPTIONS)
@pytest.mark.parametrize(("end", "refusal"), ENDS)
def test_what_is_interrupted_is_not_ended_any_more(
    desk: Desk, database_url: str, event: str, interrupt: Call, inside: bool, end: Any, refusal: type[Refused]
) -> None:
    instance, row = held(desk, process(event, inside=inside))
    told, answer = overlap(database_url, interrupt, end(row))
    assert told
    assert not isinstance(told, Refused)
    assert isinstance(answer, refusal)
    with pytest.raises(refusal):
        end(row)(Clerk(desk.conn))
    desk.settle()
    assert desk.at(instance) == ["u"]
    with pytest.raises(refusal):
        end(row)(Clerk(desk.conn))


@pytest.mark.parametrize("inside", [False, True], ids=["its own", "around it"])
@pytest.mark.parametrize(("event", "interrupt"), INTERRUPTIONS)
@pytest.mark.parametrize(("end", "refusal"), ENDS)
def test_an_interruption_that_came_to_nothing_keeps_nobody_from_ending(
    desk: Desk, database_url: str, event: str, interrupt: Call, inside: bool, end: Any, refusal: type[Refused]
) -> None:
    _, row = held(desk, process(event, inside=inside))
    _, answer = overlap(database_url, interrupt, end(row), keep=False)
    assert not isinstance(answer, Refused)


@pytest.mark.parametrize("end", [completed, completed_external])
@pytest.mark.parametrize(("event", "interrupt"), INTERRUPTIONS)
def test_what_was_ended_first_is_not_interrupted(
    desk: Desk, database_url: str, event: str, interrupt: Call, end: Any
) -> None:
    instance, row = held(desk, process(event, inside=False))
    answer, told = overlap(database_url, end(row), interrupt)
    assert not isinstance(answer, Refused)
    if event == "message" or interrupt is fired:
        assert isinstance(told, NotFound)
    desk.settle()
    assert (desk.at(instance), desk.variables(instance)) == (["b"], {"x": 1})


@pytest.mark.parametrize("end", [completed, completed_external])
@pytest.mark.parametrize(("event", "interrupt"), INTERRUPTIONS[:3])
def test_what_was_ended_before_its_subprocess_was_interrupted_counts(
    desk: Desk, database_url: str, event: str, interrupt: Call, end: Any
) -> None:
    instance, row = held(desk, process(event, inside=True))
    answer, told = overlap(database_url, end(row), interrupt)
    assert not isinstance(answer, Refused)
    assert not isinstance(told, Refused)
    desk.settle()
    assert (desk.at(instance), desk.variables(instance)) == (["u"], {"x": 1})


@pytest.mark.parametrize("inside", [False, True], ids=["its own", "around it"])
@pytest.mark.parametrize(("event", "interrupt"), INTERRUPTIONS)
def test_an_event_that_interrupts_nothing_keeps_nobody_from_ending(
    desk: Desk, database_url: str, event: str, interrupt: Call, inside: bool
) -> None:
    instance, row = held(desk, process(event, inside=inside, interrupts=False))
    told, answer = overlap(database_url, interrupt, completed(row))
    assert told
    assert not isinstance(answer, Refused)
    desk.settle()
    assert (desk.at(instance), desk.variables(instance)) == (sorted(["b", "u"] + ["sub"] * inside), {"x": 1})


@pytest.mark.parametrize("inside", [False, True], ids=["its own", "around it"])
@pytest.mark.parametrize(("event", "interrupt"), INTERRUPTIONS)
def test_a_person_is_told_as_well(desk: Desk, database_url: str, event: str, interrupt: Call, inside: bool) -> None:
    person = '<userTask id="a"/><userTask id="b"/>' + flow("a", "b")
    desk.deploy(process(event, inside=inside, activity=person))
    for first in ("event", "person"):
        instance = desk.start()
        token = desk.one(
            "select token_id from celeriac.instance_tokens where instance_id = :id and node = 'a'", id=instance
        )

        def done(clerk: Clerk, token: Any = token) -> Any:
            return clerk.one("complete_token", token_uid=token, variables=X)

        calls = (interrupt, done) if first == "event" else (done, interrupt)
        answers = dict(zip((first, "other"), overlap(database_url, *calls), strict=True))
        assert not isinstance(answers[first], Refused)
        if first == "event":
            assert isinstance(answers["other"], NotFound)
        desk.settle()
        assert desk.variables(instance) == ({} if first == "event" else {"x": 1})
        assert desk.at(instance) == ["u"] if first == "event" or inside else ["b"]
        call.one(desk.conn, "stop_instance", instance_id=instance)
        desk.settle()


@pytest.mark.parametrize("inside", [False, True], ids=["its own", "around it"])
@pytest.mark.parametrize(("event", "interrupt"), [one for one in INTERRUPTIONS if one[0] != "signal"])
def test_a_signal_for_one_that_is_interrupted_has_not_reached_it(
    desk: Desk, database_url: str, event: str, interrupt: Call, inside: bool
) -> None:
    ear = f'<boundaryEvent id="hears" attachedToRef="a">{EVENTS["signal"]}</boundaryEvent><userTask id="v"/>'
    desk.deploy(process(event, inside=inside, activity=WORK + ear + flow("hears", "v")))
    instance = desk.start()
    token = desk.one(
        "select token_id from celeriac.instance_tokens where instance_id = :id and node = 'a'", id=instance
    )

    def signal(clerk: Clerk) -> Any:
        return clerk.rows("throw_event", kind="signal", name="s", token_id=token)

    told, reached = overlap(database_url, interrupt, signal)
    assert told
    assert reached == []
    desk.settle()
    assert desk.at(instance) == ["u"]


def test_a_message_for_all_has_not_reached_who_leaves_while_they_are_looked_for(desk: Desk, database_url: str) -> None:
    desk.deploy(process("message", inside=False))
    stays, leaves = desk.start(), desk.start()
    call.rows(desk.conn, "throw_event", kind="message", name="m", instance_id=leaves)

    def leave(clerk: Clerk) -> Any:
        """Who looks now sees both wait, and then stands still at the first until the second has left."""
        clerk.run("lock table celeriac.fact in access exclusive mode")
        return advance(clerk.conn, leaves)

    def tell_all(clerk: Clerk) -> Any:
        return clerk.rows("throw_event", kind="message", name="m", everyone=True)

    left, reached = overlap(database_url, leave, tell_all)
    assert left.instance_id == leaves
    assert [str(one.instance_id) for one in reached] == [stays]


@pytest.mark.parametrize(
    ("function", "said"),
    [("complete_token", {}), ("throw_token", {"error_code": "E"}), ("assign_token", {"assignee": "me"}),
     ("describe_token", {"duty": call.Json("{}")})],
)  # fmt: skip
def test_a_person_who_waits_for_an_advance_holds_nothing_that_it_is_about_to_take(
    desk: Desk, function: str, said: dict[str, Any]
) -> None:
    """It takes waits, and then tokens: whoever takes them the other way round waits in a circle with it."""
    desk.deploy(process("message", inside=True, activity='<userTask id="a"/>'))
    instance = desk.start()
    token = desk.one(
        "select token_id from celeriac.instance_tokens where instance_id = :id and node = 'a'", id=instance
    )
    engine = desk.conn.engine.execution_options(isolation_level="READ COMMITTED")
    with engine.begin() as advances, engine.connect() as person, ThreadPoolExecutor(1) as thread:
        advances.exec_driver_sql("select from celeriac.event_wait for update")
        pid = person.exec_driver_sql("select pg_backend_pid()").scalar_one()
        doing = thread.submit(Clerk(person).one, function, token_uid=token, **said)
        waits = "select wait_event_type = 'Lock' from pg_stat_activity where pid = :pid"
        wait_until(lambda: doing.done() or desk.one(waits, pid=pid), what="the person to wait")
        advances.execute(text("select from celeriac.token where uid = :token for update nowait"), {"token": token})
        advances.commit()
        doing.result(timeout=30)


def test_a_batch_ends_what_it_can(desk: Desk) -> None:
    desk.deploy(process("message", inside=False))
    desk.start(business_key="A"), desk.start(business_key="B")
    rows = [desk.fetch("a"), desk.fetch("a")]
    call.rows(desk.conn, "throw_event", kind="message", name="m", business_key="A")
    items = call.json_list([{"task_id": str(row.task_id), "variables": {}} for row in rows])
    answers = call.rows(desk.conn, "complete_tasks", items=items, worker_id="w")
    assert [answer.code for answer in answers] == ["canceled", None]
    desk.settle()
    assert desk.ready() == []


def test_a_completion_that_is_sent_again_holds_though_its_instance_has_not_moved_yet(desk: Desk) -> None:
    _, row = held(desk, process("message", inside=True))
    for _ in range(2):
        assert completed(row)(Clerk(desk.conn)).state == "COMPLETED"
    call.rows(desk.conn, "throw_event", kind="message", name="m")
    assert completed(row)(Clerk(desk.conn)).state == "COMPLETED"


# Stops

UNDONE = (
    task("pay") + task("a", 'isForCompensation="true"') + '<boundaryEvent id="c" attachedToRef="pay">'
    '<compensateEventDefinition/></boundaryEvent><association id="o" sourceRef="c" targetRef="a"/>'
)  # fmt: skip
THROWN = model(
    '<startEvent id="s"/>' + UNDONE + '<intermediateThrowEvent id="t"><compensateEventDefinition/>'
    '</intermediateThrowEvent><userTask id="b"/>' + flow("s", "pay", "t", "b")
)


@pytest.mark.parametrize("compensate", [False, True])
@pytest.mark.parametrize(("end", "refusal"), ENDS)
def test_what_was_stopped_is_not_ended_any_more(
    desk: Desk, database_url: str, end: Any, refusal: type[Refused], compensate: bool
) -> None:
    instance, row = held(desk, process("message", inside=True))
    call.one(desk.conn, "stop_instance", instance_id=instance, compensate=compensate)
    with pytest.raises(refusal):
        end(row)(Clerk(desk.conn))
    desk.settle()
    assert desk.status(instance) == "CANCELED"


@pytest.mark.parametrize("end", [completed, completed_external])
@pytest.mark.parametrize("compensate", [False, True])
def test_what_undoes_is_ended_unless_it_was_stopped_at_once(desk: Desk, end: Any, compensate: bool) -> None:
    desk.deploy(THROWN)
    instance = desk.start()
    desk.complete("pay")
    row = desk.fetch("a")
    call.one(desk.conn, "stop_instance", instance_id=instance, compensate=compensate)
    if compensate:
        assert end(row)(Clerk(desk.conn)).state == "COMPLETED"
    else:
        with pytest.raises((Canceled, NotFound)):
            end(row)(Clerk(desk.conn))
    desk.settle()
    assert desk.status(instance) == "CANCELED"
    assert desk.one("select count(*) from celeriac.task where state = 'COMPLETED'") == (2 if compensate else 1)


# While another branch fails, errs or is stopped: work that was accepted was done, and is undone with the rest.


def undone_by(activity: str, handler: str) -> str:
    return (
        task(activity)
        + task(handler, 'isForCompensation="true"')
        + f'<boundaryEvent id="c-{activity}" attachedToRef="{activity}"><compensateEventDefinition/></boundaryEvent>'
        f'<association id="o-{activity}" sourceRef="c-{activity}" targetRef="{handler}"/>'
    )


BRANCHES = model(
    '<startEvent id="s"/>'
    + undone_by("first", "undo-first")
    + '<subProcess id="sub"><startEvent id="is"/><parallelGateway id="fork"/>'
    + task("x")
    + undone_by("a", "undo-a")
    + '<userTask id="b"/>'
    + flow("is", "fork", "x")
    + flow("fork", "a", "b")
    + '</subProcess><boundaryEvent id="on" attachedToRef="sub"><errorEventDefinition errorRef="E"/></boundaryEvent>'
    '<intermediateThrowEvent id="tell"><signalEventDefinition signalRef="S"/></intermediateThrowEvent>'
    '<userTask id="u"/>' + flow("s", "first", "sub") + flow("on", "tell", "u"),
    ROOTS,
)
EAR = model(
    '<startEvent id="s"><signalEventDefinition signalRef="S"/></startEvent><userTask id="hears"/>' + flow("s", "hears"),
    '<signal id="S" name="s"/>',
    'id="ear" isExecutable="true"',
)


def failed(row: Any) -> Call:
    return lambda clerk: clerk.one("fail_task", task_id=row.task_id, worker_id="w", error="broken", retries=0)


def stopped(row: Any) -> Call:
    return lambda clerk: clerk.one("stop_instance", instance_id=row.instance_id, compensate=True)


@pytest.mark.parametrize("end", [completed, completed_external])
@pytest.mark.parametrize(
    ("break_off", "order"),
    [(what, order) for what in (failed, stopped, threw) for order in ("first", "after", "while")
     if (what, order) != (stopped, "after")],  # who is stopped is told so
)  # fmt: skip
def test_what_is_accepted_before_all_is_undone_counts(desk: Desk, end: Any, break_off: Any, order: str) -> None:
    desk.deploy(BRANCHES, EAR)
    instance = desk.start()
    desk.complete("first")
    broken, row = desk.fetch("x"), desk.fetch("a")
    if order == "while":
        with desk.conn.engine.connect().execution_options(isolation_level="READ COMMITTED") as other, other.begin():
            end(row)(Clerk(other))
            break_off(broken)(Clerk(desk.conn))
            desk.advance(instance)
            assert desk.at(instance) == ["a", "sub", "x"]
    else:
        calls = [end(row), break_off(broken)]
        for one in calls if order == "first" else calls[::-1]:
            one(Clerk(desk.conn))
    desk.settle()
    if break_off is threw:
        assert (desk.at(instance), desk.variables(instance)) == (["u"], {"x": 1})
        assert desk.one("select count(*) from celeriac.instances") == 2
        return
    for undo in ("undo-a", "undo-first"):
        assert desk.ready() == [undo]
        desk.complete(undo)
    assert desk.status(instance) == ("FAILED_COMPENSATED" if break_off is failed else "CANCELED")


@pytest.mark.parametrize("end", [completed, completed_external])
def test_a_stop_that_has_nothing_to_undo_yet_waits_for_what_is_being_done(desk: Desk, end: Any) -> None:
    _, row = held(
        desk,
        model('<startEvent id="s"/>' + undone_by("a", "undo-a") + '<userTask id="b"/>' + flow("s", "a", "b"), ROOTS),
    )
    with desk.conn.engine.connect().execution_options(isolation_level="READ COMMITTED") as other, other.begin():
        end(row)(Clerk(other))
        stopped(row)(Clerk(desk.conn))
        desk.advance(str(row.instance_id))
    desk.settle()
    assert desk.ready() == ["undo-a"]
