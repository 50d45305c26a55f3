"""A worker on the client for Python: it does what the topic's name says, and tells it in lines of JSON.

The environment is that of worker.mjs; MODE is `sync` or `async`, which are two workers in that package.
"""

import asyncio
import base64
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from camunda.client.engine_client import EngineClient
from camunda.external_task.async_external_task_worker import AsyncExternalTaskWorker
from camunda.external_task.external_task import ExternalTask, TaskResult
from camunda.external_task.external_task_worker import ExternalTaskWorker

ENGINE_REST, WORKER = os.environ["ENGINE_REST"], os.environ["WORKER"]
KEY, GATE = os.environ.get("KEY"), Path(os.environ.get("GATE", "/nowhere"))
AUTHENTICATION = {"auth_basic": {"username": "anybody", "password": KEY}} if KEY else {}
CONFIG = {
    "asyncResponseTimeout": 20_000, "lockDuration": 60_000, "sleepSeconds": 1, "maxTasks": 10,
    **AUTHENTICATION, **json.loads(os.environ.get("OPTIONS", "{}")),
}  # fmt: skip


def tell(what: str, **more: Any) -> None:
    sys.stdout.write(json.dumps({"what": what, "worker": WORKER, **more}) + "\n")
    sys.stdout.flush()


def complete(task: ExternalTask) -> TaskResult:
    total = task.get_variable("a") + task.get_variable("b")
    gone = {"value": "at once", "valueInfo": {"transient": True}}
    return task.complete({"sum": total, "done_by": WORKER, "gone": gone}, {"inner": 1})


def echo(task: ExternalTask) -> TaskResult:
    seen = {name: task.get_variable(name, with_meta=True) for name in task.get_variables()}
    tell("saw", seen=seen)
    # An object comes as what its JSON says; only without a type may it go back so.
    plain = {name: typed["value"] if typed["type"] == "Object" else typed for name, typed in seen.items()}
    return task.complete({f"{name}_back": value for name, value in plain.items()})


def make(task: ExternalTask) -> TaskResult:
    made = {
        "text": "größer ✓ \U0001f980", "integer": 7, "long": 5_000_000_000, "double": 1.5, "yes": True,
        "nothing": None, "object": {"list": [1, "two", None], "nested": {"a": 1.25}}, "list": [1, "two"],
        "when": {"value": "2024-01-02T03:04:05.678+0000", "type": "Date"},
        "json": {"value": '{"a":  1.0}', "type": "Json"}, "short": {"value": 3, "type": "Short"},
        "bytes": {"value": base64.b64encode(b"\x00\xff\n").decode(), "type": "Bytes"},
        "xml": {"value": "<a b='1'/>", "type": "Xml"},
    }  # fmt: skip
    return task.complete(made)


def file(task: ExternalTask) -> TaskResult:
    told = task.get_variable("document", with_meta=True)
    engine = EngineClient(ENGINE_REST, config=AUTHENTICATION)
    content = base64.b64decode(engine.get_process_instance_variable(task.get_process_instance_id(), "document"))
    tell("read", **told["valueInfo"], content=base64.b64encode(content).decode())
    answer = base64.b64encode(content + bytes([0, 1, 2, 255])).decode()
    info = {"filename": "answer.bin", "mimetype": "application/octet-stream"}
    return task.complete({"answer": {"value": answer, "type": "File", "valueInfo": info}})


def fail(task: ExternalTask) -> TaskResult:
    if task.get_variable("mended"):
        return task.complete({"done_by": WORKER})
    context = task._context
    tell("failing", **{name: context[name] for name in ("retries", "errorMessage", "errorDetails")})
    return task.failure("no paper", "line 1\nline 2", max_retries=2, retry_timeout=0)


def refuse(task: ExternalTask) -> TaskResult:
    return task.bpmn_error("REFUSED", "too dear", {"reason": "price"})


def hold(task: ExternalTask) -> TaskResult:
    tell("holding", task=task.get_task_id(), instance=task.get_process_instance_id())
    while not GATE.exists():
        time.sleep(0.025)
    return task.complete({"done_by": WORKER})


DEEDS: dict[str, Callable[[ExternalTask], TaskResult]] = {
    "complete": complete, "echo": echo, "make": make, "file": file, "fail": fail, "refuse": refuse, "hold": hold,
}  # fmt: skip


def act(task: ExternalTask) -> TaskResult:
    names = {"task": task.get_task_id(), "topic": task.get_topic_name(), "instance": task.get_process_instance_id()}
    context = {name: value for name, value in task._context.items() if name != "variables"}
    tell("began", **names, context=context, properties=task.get_extension_properties())
    return DEEDS[task.get_topic_name()](task)


async def act_soon(task: ExternalTask) -> TaskResult:
    return await asyncio.to_thread(act, task)


class Reporter(logging.Handler):
    """Tells what the client notes down."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        known = {
            "Marked task": "ended", "BPMN Error Handled": "ended", "rror fetching": "poll failed",
            "rror when executing": "refused", "Fetching and Locking": "polling",
            "Marking task failed": "giving up",
        }  # fmt: skip
        what = next((what for sign, what in known.items() if sign in text), None)
        if what is not None:
            tell(what, text=text)


def main() -> None:
    logging.basicConfig(level=logging.INFO, handlers=[Reporter()])
    topics = os.environ["TOPICS"].split(",")
    tell("ready")
    if os.environ.get("MODE") == "async":
        logging.getLogger().setLevel(logging.DEBUG)
        asyncio.run(AsyncExternalTaskWorker(WORKER, ENGINE_REST, CONFIG).subscribe(dict.fromkeys(topics, act_soon)))
    else:
        ExternalTaskWorker(WORKER, ENGINE_REST, CONFIG).subscribe(topics, act)


if __name__ == "__main__":
    main()
