"""Variables and files, from the engine through a worker's hands and back."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.app.bpmn.writing import extended
from tests.camunda_clients.conftest import Employ, Engine, Kind
from tests.camunda_clients.models import one_task

both = pytest.mark.parametrize("kind", ["javascript", "python"])
JSON_OBJECT = "application/json"
TYPED: dict[str, dict[str, Any]] = {
    "string": {"type": "String", "value": "größer ✓ \U0001f980"},
    "empty": {"type": "String", "value": ""},
    "integer": {"type": "Integer", "value": -7},
    "short": {"type": "Short", "value": 3},
    "long": {"type": "Long", "value": 9_007_199_254_740_991},
    "double": {"type": "Double", "value": 1.5},
    "yes": {"type": "Boolean", "value": True},
    "date": {"type": "Date", "value": "2024-01-02T03:04:05.678+0000"},
    "nothing": {"type": "Null", "value": None},
    "bytes": {"type": "Bytes", "value": base64.b64encode(b"\x00\xff\n").decode()},
    "json": {"type": "Json", "value": '{"list":[1,"two",null],"nested":{"a":1.25}}'},
    "xml": {"type": "Xml", "value": "<a b='1'/>"},
}
OBJECT = {
    "type": "Object", "value": '{"a": [1, 2]}',
    "valueInfo": {"objectTypeName": "java.util.LinkedHashMap", "serializationDataFormat": JSON_OBJECT},
}  # fmt: skip


@both
def test_each_type_comes_back_as_it_went(kind: Kind, engine: Engine, employ: Employ) -> None:
    engine.deploy(one_task("echo"))
    instance = engine.start(TYPED)
    worker = employ(kind, "echo")
    engine.wait_until_at(instance, "look")
    found = engine.variables(instance)
    for name, typed in TYPED.items():
        for place in (name, f"{name}_back"):
            assert (found[place]["type"], found[place]["value"]) == (typed["type"], typed["value"]), place
    if kind == "javascript":
        seen = worker.wait_for("saw")[0]["seen"]
        assert (seen["date"]["is"], seen["date"]["value"]) == ("Date", "2024-01-02T03:04:05.678Z")
        assert seen["json"]["value"] == {"list": [1, "two", None], "nested": {"a": 1.25}}


def test_an_object_is_its_json_to_the_client_that_asks_for_that(engine: Engine, employ: Employ) -> None:
    engine.deploy(one_task("echo"))
    instance = engine.start({"object": OBJECT})
    worker = employ("python", "echo")
    engine.wait_until_at(instance, "look")
    seen = worker.wait_for("saw")[0]["seen"]["object"]
    assert (seen["type"], seen["value"]) == ("Object", {"a": [1, 2]})
    assert seen["valueInfo"] == OBJECT["valueInfo"]
    back = engine.variables(instance)["object_back"]
    assert (back["type"], back["value"], back["valueInfo"]) == ("Object", '{"a":[1,2]}', OBJECT["valueInfo"])


def test_an_object_is_text_to_the_client_that_does_not(engine: Engine, employ: Employ) -> None:
    engine.deploy(one_task("echo"))
    instance = engine.start({"object": OBJECT})
    employ("javascript", "echo")
    engine.wait_until_at(instance, "look")
    assert engine.variables(instance)["object_back"] == engine.variables(instance)["object"] == OBJECT


def test_what_javascript_makes(engine: Engine, employ: Employ) -> None:
    engine.deploy(one_task("make"))
    instance = engine.start()
    employ("javascript", "make")
    engine.wait_until_at(instance, "look")
    assert {name: (typed["type"], typed["value"]) for name, typed in engine.variables(instance).items()} == {
        "text": ("String", "größer ✓ \U0001f980"),
        "integer": ("Integer", 7),
        "long": ("Long", 5_000_000_000),
        "double": ("Double", 1.5),
        "yes": ("Boolean", True),
        "nothing": ("Null", None),
        "when": ("Date", "2024-01-02T03:04:05.678+0000"),
        "json": ("Json", '{"list":[1,"two",null],"nested":{"a":1.25}}'),
        "short": ("Short", 3),
        "bytes": ("Bytes", "AP8K"),
        "xml": ("Xml", "<a b='1'/>"),
    }


def test_what_python_makes(engine: Engine, employ: Employ) -> None:
    engine.deploy(one_task("make"))
    instance = engine.start()
    employ("python", "make")
    engine.wait_until_at(instance, "look")
    found = engine.variables(instance)
    assert {name: (found[name]["type"], found[name]["value"]) for name in found if name not in ("object", "list")} == {
        "text": ("String", "größer ✓ \U0001f980"),
        "integer": ("Integer", 7),
        "long": ("Long", 5_000_000_000),
        "double": ("Double", 1.5),
        "yes": ("Boolean", True),
        "nothing": ("Null", None),
        "when": ("Date", "2024-01-02T03:04:05.678+0000"),
        "json": ("Json", '{"a":  1.0}'),
        "short": ("Short", 3),
        "bytes": ("Bytes", "AP8K"),
        "xml": ("Xml", "<a b='1'/>"),
    }
    object_info = {"objectTypeName": "java.util.LinkedHashMap", "serializationDataFormat": JSON_OBJECT}
    assert (found["object"]["type"], found["object"]["valueInfo"]) == ("Object", object_info)
    assert found["list"]["valueInfo"]["objectTypeName"] == "java.util.ArrayList"
    raw = engine.get(f"/process-instance/{instance}/variables")
    assert raw["object"]["value"] == {"list": [1, "two", None], "nested": {"a": 1.25}}
    assert raw["list"]["value"] == [1, "two"]


@both
def test_a_file_is_read_and_another_is_written(kind: Kind, engine: Engine, employ: Employ) -> None:
    content = bytes(range(256)) * 400
    info = {"filename": "größe.pdf", "mimetype": "application/pdf", "encoding": "UTF-8"}
    document = {"type": "File", "value": base64.b64encode(content).decode(), "valueInfo": info}
    engine.deploy(one_task("file"))
    instance = engine.start({"document": document})
    worker = employ(kind, "file")
    [read] = worker.wait_for("read")
    assert base64.b64decode(read.pop("content")) == content
    assert {name: read[name] for name in info} == info

    engine.wait_until_at(instance, "look")
    answer = engine.variables(instance)["answer"]
    assert (answer["type"], answer["value"]) == ("File", None)
    assert answer["valueInfo"] == {"filename": "answer.bin", "mimetype": "application/octet-stream"}
    data = engine.http.get(f"/process-instance/{instance}/variables/answer/data")
    assert data.content == content + bytes([0, 1, 2, 255])
    assert data.headers["content-type"] == "application/octet-stream"


@both
def test_a_subscription_says_which_variables_come(kind: Kind, engine: Engine, employ: Employ) -> None:
    """Local variables of the activity are among them, and shadow those of the instance."""
    inputs = (
        '<camunda:inputOutput><camunda:inputParameter name="b">${a + 1}</camunda:inputParameter></camunda:inputOutput>'
    )
    engine.deploy(one_task("complete", extended(inputs)))
    instance = engine.start({"a": {"value": 1}, "b": {"value": 100}, "c": {"value": "not asked for"}})
    employ(kind, "complete", subscriptions={"complete": {"variables": ["a", "b"]}})
    engine.wait_until_at(instance, "look")
    assert engine.values(instance)["sum"] == 3
