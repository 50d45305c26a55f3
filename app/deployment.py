"""Deploying models: read all files, refuse all of them if one is wrong, else a new version of each process."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from app import exact_json
from app.bpmn.options import Options
from app.bpmn.problems import Finding
from app.bpmn.reader import Model, read
from app.engine import start_waits
from app.process.graph import Graph
from app.process.graph_json import from_json, to_json
from db.call import Json

MODEL_ENDINGS: Final = (".bpmn", ".bpmn20.xml", ".xml")
CAMUNDA_ENDINGS: Final = (".bpmn", ".bpmn20.xml")


@dataclass(frozen=True, slots=True)
class Resource:
    """One file: models are read, other files are only kept."""

    name: str
    content: bytes
    endings: tuple[str, ...] = MODEL_ENDINGS
    """What the names of models end with."""

    @property
    def is_model(self) -> bool:
        return self.name.lower().endswith(self.endings)


class NotDeployable(Exception):
    """There are errors in the files; `findings` has all, with the file of each."""

    def __init__(self, findings: Sequence[tuple[str, Finding]]) -> None:
        errors = [finding for _, finding in findings if finding.severity == "error"]
        super().__init__(f"the model has {len(errors)} errors" if len(errors) != 1 else "the model has an error")
        self.findings = findings


def prepared(name: str | None, resources: Sequence[Resource], options: Options, now: datetime) -> dict[str, Any]:
    """The arguments of `deploy_models`. Raises NotDeployable with every finding of every file."""
    findings: list[tuple[str, Finding]] = []
    definitions: list[dict[str, Any]] = []
    for resource in resources:
        if resource.is_model:
            reading = read(resource.content, options)
            findings += [(resource.name, finding) for finding in reading.report.findings]
            definitions += [
                _definition(model, resource, options, now) for model in reading.models if not reading.report.errors
            ]
    keys = [definition["key"] for definition in definitions]
    findings += [
        (definition["resource"], Finding("error", definition["key"], 1, "two processes of this deployment have one id"))
        for place, definition in enumerate(definitions)
        if definition["key"] in keys[:place]
    ]
    if not definitions and not findings and options.executable != "stated":
        findings.append(
            (resources[0].name if resources else "", Finding("error", None, 1, "there is no model to deploy"))
        )
    if any(finding.severity == "error" for _, finding in findings):
        raise NotDeployable(findings)
    kept = [{"name": one.name, "content": base64.b64encode(one.content).decode()} for one in resources]
    return {
        "name": name,
        "resources": Json(exact_json.dumps(kept)),
        "definitions": Json(exact_json.dumps(definitions)),
        "report": Json(exact_json.dumps([{"resource": file, **asdict(finding)} for file, finding in findings])),
    }


def starts_of(graph_text: str, now: datetime) -> list[dict[str, Any]]:
    """What begins instances of a definition that is deployed already; `graph_text` is its graph as it is stored."""
    return start_waits(from_json(exact_json.loads(graph_text)), now)


def topics_of(graph: Graph) -> list[str]:
    """The task types that a process asks for; `*` where an expression names one."""
    topics = (node.work.topic for node in graph.nodes.values() if node.work is not None)
    return sorted({topic if isinstance(topic, str) else "*" for topic in topics})


def _definition(model: Model, resource: Resource, options: Options, now: datetime) -> dict[str, Any]:
    checksum = hashlib.sha256(resource.content + repr(options).encode() + model.graph.process.encode())
    return {
        "key": model.graph.process,
        "name": model.graph.name,
        "version_tag": model.version_tag,
        "category": model.category,
        "description": model.description,
        "checksum": checksum.hexdigest(),
        "resource": resource.name,
        "graph": to_json(model.graph),
        "topics": topics_of(model.graph),
        "startable": model.graph.start(model.graph.process) is not None,
        "starts": start_waits(model.graph, now),
    }
