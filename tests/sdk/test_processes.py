"""Processes through the SDK: deploy, start, work with BpmnError, look, messages, change, stop."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from app.dev.waiting import wait_until
from celeriac import AsyncClient, BpmnError, Client, Invalid, NotFound, NoWaiter, TaskContext, Worker
from tests.app.engine.conftest import flow, model, task
from tests.sdk.conftest import Book, Server

MakeWorker = Callable[..., Worker]

ERROR = '<boundaryEvent id="no" attachedToRef="a"><errorEventDefinition errorRef="E"/></boundaryEvent>'
CATCHES = model(
    '<startEvent id="s"/>'
    + task("a")
    + ERROR
    + task("b")
    + '<endEvent id="e"/>'
    + flow("s", "a", "e")
    + flow("no", "b", "e"),
    '<error id="E" errorCode="SOLD_OUT"/>',
)
PERSON = model('<startEvent id="s"/><userTask id="u"/><endEvent id="e"/>' + flow("s", "u", "e"), process='id="q"')
WAITS = model(
    '<startEvent id="s"/><intermediateCatchEvent id="m"><messageEventDefinition messageRef="M"/>'
    '</intermediateCatchEvent><endEvent id="e"/>' + flow("s", "m", "e"),
    '<message id="M" name="paid"/>',
    'id="w"',
)


def test_a_business_error_of_a_worker_is_caught_by_the_model(
    client: Client, make_worker: MakeWorker, book: Book
) -> None:
    client.deploy_models({"order.bpmn": CATCHES})
    worker, seen = make_worker(), list[TaskContext]()

    @worker.task("a")
    def reserve(ctx: TaskContext) -> None:
        seen.append(ctx)
        raise BpmnError("SOLD_OUT", "none left", {"missing": 2})

    @worker.task("b")
    def tell(ctx: TaskContext) -> dict[str, Any]:
        return {"told": ctx.variables["missing"]}

    started = client.start_instance("p", {"x": 1}, business_key="B-1")
    worker.start()
    wait_until(lambda: client.get_instance(started.instance_id)["status"] == "COMPLETED", 20, what="the instance")
    found = client.get_instance(started.instance_id)
    assert found["variables"] == {"x": 1, "missing": 2, "told": 2}
    assert seen[0].instance_id == started.instance_id
    assert book.state(seen[0].task_id) == "COMPLETED"
    assert "thrown" in book.timeline(seen[0].task_id)
    wait_until(lambda: worker.stats.completed == 2, 5, what="both outcomes counted")


def test_a_business_error_of_a_task_without_a_process_fails_the_attempt(
    client: Client, make_worker: MakeWorker, book: Book
) -> None:
    worker = make_worker()

    @worker.task("a")
    def reserve(ctx: TaskContext) -> None:
        raise BpmnError("SOLD_OUT")

    task_id = client.enqueue_task("a", retries=1).task_id
    worker.start()
    book.wait_for_state(task_id, "FAILED")
    assert "only a task of a process" in book.task(task_id).error


def test_all_calls_come_to_the_same_in_both_clients(client: Client, server: Server) -> None:
    deployed = client.deploy_models({'per"son.bpmn': PERSON, "waits.bpmn": WAITS, "notes.txt": "é"}, name="all")
    assert sorted(one["key"] for one in deployed.definitions) == ["q", "w"]
    assert client.list_definitions(key="q").definitions[0]["resource"] == 'per"son.bpmn'

    async def through() -> None:
        async with AsyncClient(server.url, server.key) as other:
            one = await other.start_instance("q", {"x": 1}, idempotency_key="k")
            again = await other.start_instance("q", {"x": 1}, idempotency_key="k")
            assert (again.instance_id, again.created) == (one.instance_id, False)
            assert (await other.suspend_instance(one.instance_id)).suspended
            assert await other.set_variables(one.instance_id, {"y": 2}, remove=["x"]) == 1
            assert not (await other.resume_instance(one.instance_id)).suspended
            assert (await other.migrate_instance(one.instance_id, process_version=1)).status == "ACTIVE"
            token = (await other.get_instance(one.instance_id))["tokens"][0]["token_id"]
            assert (await other.get_diagram(one.instance_id)).startswith("<svg")
            assert (await other.complete_token(one.instance_id, token, {"ok": True})).status == "COMPLETED"
            history = await other.get_history(one.instance_id)
            assert ("left", "u") in [(line["what"], line["node"]) for line in history.history]
            assert (await other.list_instances(process_key="q", status="COMPLETED")).instances[0][
                "business_key"
            ] is None

    asyncio.run(through())
    with pytest.raises(NoWaiter):
        client.send_message("paid", business_key="B-1")
    waiting = client.start_instance("w", business_key="B-1")
    assert client.send_message("paid", business_key="B-1").reached[0]["instance_id"] == waiting.instance_id
    assert client.send_process_signal("closed").reached == []
    open_one = client.start_instance(definition_id=waiting.definition_id)
    assert client.cancel_instance(open_one.instance_id, reason="enough", compensate=True).status == "CANCELED"
    assert client.get_definition(waiting.definition_id)["topics"] == []


def test_what_is_wrong_with_a_model_comes_with_the_error(client: Client) -> None:
    with pytest.raises(Invalid) as refused:
        client.deploy_models({"p.bpmn": model('<startEvent id="s"/><callActivity id="c"/>' + flow("s", "c"))})
    assert "c" in [finding["element"] for finding in refused.value.errors]
    with pytest.raises(NotFound):
        client.start_instance("p")
