"""Functions that the Camunda face calls, with arguments that fit their types and nothing else: they answer or refuse.

What they refuse names a field in words of ours; what they take, the engine can work in.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.engine import advance
from db.errors import Invalid, Refused, TooLarge, translate
from tests.app.engine.conftest import flow, model, task
from tests.db.external_task.conftest import Bench

FUNCTIONS = (
    "fetch_external_tasks", "lock_external_task", "extend_external_task", "unlock_external_task",
    "complete_external_task", "fail_external_task", "throw_external_task", "set_external_task_retries",
    "set_external_task_priority", "free_external_tasks", "start_instance", "throw_event", "set_variables",
    "visible_variables", "complete_token", "throw_token", "assign_token", "describe_token", "move_event_timer",
    "suspend_instance",
)  # fmt: skip
CALLS = 120
EVERYTHING = model(
    '<startEvent id="s"/><parallelGateway id="all"/><userTask id="u"/>' + task("mail")
    + '<intermediateCatchEvent id="m"><messageEventDefinition messageRef="M"/></intermediateCatchEvent>'
    + '<intermediateCatchEvent id="t"><timerEventDefinition><timeDuration>P1D</timeDuration></timerEventDefinition>'
    "</intermediateCatchEvent>" + flow("s", "all") + "".join(flow("all", one) for one in "umt") + flow("all", "mail"),
    roots='<message id="M" name="m"/>', process='id="every" isExecutable="true"',
)  # fmt: skip
TOPIC = '{"topic": "mail", "lock_ms": 1000, '
JSONS = (
    "null", "[]", "{}", "5", '"x"', "true", "[null]", "[5]", "[{}]", '[["a"]]', '{"": 1}', '{"x": null}', '{"x": 5}',
    '{"x": "y"}', '{"x": []}', '{"x": {}}', '{"x": {"type": 5}}', '{"x": {"type": "Long", "info": "y"}}',
    '{"x": {"type": "File"}}', '{"x": {"transient": "banana"}}', '{"x": {"transient": 5}}', '{"x": {"info": {"a": 5}}}',
    '{"x": {"file": "y"}}', '{"x": {"file": 5}}', '{"x": {"type": "Date", "info": null}}', '{"x": 1e131000}',
    '{"x": {"type": "Bytes"}}', '{"x": ' + "[" * 90 + "]" * 90 + "}", '{"' + "n" * 2000 + '": 1}',
    '{"x": "' + "y" * (1 << 20) + '"}', '[{"topic": 5}]', '[{"topic": "mail"}]', '[{"topic": "", "lock_ms": 1}]',
    '[{"topic": "mail", "lock_ms": 1.5}]', '[{"topic": "mail", "lock_ms": 1e30}]', '[{"topic": "mail", "lock_ms": -1}]',
    *(f"[{TOPIC}{more}}}]" for more in (
        '"business_key": 5', '"business_key": "\\\\"', '"definition_ids": 5', '"definition_ids": ["x"]',
        '"definition_ids": [null]', '"definition_ids": []', '"definition_ids": [{}]', '"process_keys": [5]',
        '"process_keys": [[]]', '"version_tag": "\\\\"', '"version_tag": "a\\\\\\\\\\\\"', '"version_tag": 5',
        '"process_variables": [5]', '"process_variables": [[]]', '"process_variables": [[5, 5, 5]]',
        '"process_variables": [["x", "Long", 1e131000]]', '"process_variables": [{"x": 1}]',
        '"process_variables": [["x", {}, 1]]', '"process_variables": null, "definition_ids": null', '"odd": 5',
    )),
    "[" + ",".join(f'{{"topic": "t{number}", "lock_ms": 1}}' for number in range(300)) + "]",
)  # fmt: skip
VALUES: dict[str, tuple[Any, ...]] = {
    "jsonb": (None, *JSONS),
    "text": (
        None, "", " ", "w", "mail", "m", "message", "E", "asc", "desc", "free", "retry", "x" * 256, "x" * 100_000,
        "\\", "%", "\x01", "\u202e", "ü🙂",
    ),
    "integer": (None, 0, 1, -1, 1000, 1001, 2**31 - 1, -(2**31)),
    "bigint": (None, 0, 1, -1, 3_155_760_000_000, 3_155_760_000_001, 2**63 - 1, -(2**63)),
    "boolean": (None, True, False),
    "timestamp with time zone": (None, "0001-01-01", "4713-01-01 BC", "294276-12-31", "infinity", "-infinity"),
    "text[]": (None, [], [None], [""], ["mail"], ["%"], ["x" * 100_000]),
}  # fmt: skip


def signature(bench: Bench, function: str) -> dict[str, str]:
    rows = bench.clerk.query(
        "select n.name, format_type(t.oid, null) as type from pg_proc p,"
        " unnest(p.proargnames, p.proargtypes) n (name, oid) join pg_type t on t.oid = n.oid"
        " where p.proname = :function and p.pronamespace = 'celeriac'::regnamespace",
        function=function,
    )
    return {row["name"]: row["type"] for row in rows}


def ids(bench: Bench) -> list[str]:
    rows = bench.clerk.query(
        "select id from celeriac.instance union all select uid from celeriac.token"
        " union all select id from celeriac.task"
        " union all select uid from celeriac.event_wait union all select id from celeriac.definition order by 1"
    )
    return [str(row["id"]) for row in rows]


def odd_arguments(bench: Bench, function: str) -> Iterator[dict[str, Any]]:
    """Arguments of which one to three are odd; the rest is what somebody means."""
    dice, types = random.Random(function), signature(bench, function)
    meant = {
        "worker_id": "w", "topics": f'[{TOPIC}"business_key": null}}]', "max_tasks": 1, "lock_ms": 1000,
        "error_code": "E", "retries": 1, "priority": 1, "most": 10, "failed": True, "variables": '{"x": "y"}',
        "kind": "message", "name": "m", "suspended": False, "token_uids": None, "assignee": "me", "duty": "{}",
        "due_at": None,
    }  # fmt: skip
    for _ in range(CALLS):
        known = ids(bench)
        arguments = {name: value for name, value in meant.items() if name in types}
        for name, type_ in types.items():
            if type_ in ("uuid", "uuid[]"):
                arguments[name] = dice.choice(known) if type_ == "uuid" else dice.sample(known, 5)
        for name in dice.sample(list(types), dice.randint(1, min(3, len(types)))):
            match types[name]:
                case "uuid":
                    arguments[name] = dice.choice([None, str(uuid4())])
                case "uuid[]":
                    arguments[name] = dice.choice([None, [], [None], [str(uuid4())], known * 2])
                case type_:
                    arguments[name] = dice.choice(VALUES[type_])
        yield arguments


def refusal_of(bench: Bench, statement: str, arguments: dict[str, Any]) -> Exception | None:
    try:
        bench.clerk.conn.execute(text(statement), arguments).all()
    except DBAPIError as error:
        return translate(error) or error
    return None


@pytest.mark.parametrize("function", FUNCTIONS)
def test_odd_arguments_are_answered_or_refused(bench: Bench, function: str) -> None:
    bench.desk.deploy(EVERYTHING)
    types = signature(bench, function)
    for number in range(6):
        bench.desk.start("every", f"b{number}", x=number)
    bench.fetch("mail", worker="w", most=2, lock_ms=600_000)
    for arguments in odd_arguments(bench, function):
        given = ", ".join(f"{name} => cast(:{name} as {types[name]})" for name in arguments)
        told = f"{function} {str(arguments)[:2000]}"
        refusal = refusal_of(bench, f"select * from celeriac.{function}({given})", arguments)
        assert refusal is None or isinstance(refusal, Refused), f"{told}: {str(refusal)[:500]}"
        if refusal is not None:
            assert not refusal.message.startswith("a value cannot be stored"), f"{told}: {refusal.message}"
        if isinstance(refusal, Invalid | TooLarge):
            assert refusal.field, f"{told}: {refusal.message}"
        due = bench.clerk.query("select instance_id from celeriac.fact group by 1")
        for row in due:
            advance(bench.clerk.conn, str(row["instance_id"]))
