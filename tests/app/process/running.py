"""Models from files, run by hand: the reader's graphs, real expressions, and signals that come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.bpmn.options import Options
from app.bpmn.reader import read
from app.expressions.evaluator import evaluator
from app.expressions.juel import Surroundings
from app.process.decision import Decision, MakeTask, ThrowSignal
from app.process.facts import Happened, Started
from app.process.graph import EventKind, Graph, Kind
from app.process.state import Status
from tests.app.process.drawing import Instance

REPOSITORY = Path(__file__).parents[3]
OURS = REPOSITORY / "tests" / "models"
SURROUNDINGS = Surroundings(business_key="B-7", instance_id="i-1", now="2026-11-29T12:00:00Z")


def graphs(path: Path, options: Options | None = None) -> dict[str, Graph]:
    """The processes of a file that has no errors, by id."""
    reading = read(path.read_bytes(), options)
    assert not reading.report.errors, [str(error) for error in reading.report.errors]
    return {model.graph.process: model.graph for model in reading.models}


class Run(Instance):
    """An instance of a model. Signals that it throws reach what it waits for itself, as they reach all others."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, evaluate=evaluator(SURROUNDINGS))

    @classmethod
    def of(cls, process: str) -> Run:
        """One of our own models."""
        return cls(graphs(OURS / f"{process}.bpmn")[process])

    def start_at(self, node: str, **variables: Any) -> Run:
        """Begin at a start event to which something happened."""
        self.tell(Started(variables, node))
        return self

    def hear(self, kind: EventKind, name: str, **variables: Any) -> int:
        """A message for one wait, a signal for all: how many heard it."""
        waits = [wait for wait in self.state.waits.values() if (wait.kind, wait.name) == (kind, name)]
        waits = waits[:1] if kind is EventKind.MESSAGE else waits
        for wait in waits:
            self.tell(Happened(wait.id, variables))
        return len(waits)

    def message(self, name: str, **variables: Any) -> Run:
        assert self.hear(EventKind.MESSAGE, name, **variables) == 1, f"nothing waits for the message {name}"
        return self

    def signal(self, name: str, **variables: Any) -> Run:
        self.hear(EventKind.SIGNAL, name, **variables)
        return self

    def done(self, *names: str, **variables: Any) -> Run:
        """Complete the oldest token of each node, whoever does such work."""
        for name in names:
            self.complete(name, **variables)
        return self

    def _take(self, decision: Decision) -> None:
        super()._take(decision)
        for action in decision.actions:
            if isinstance(action, ThrowSignal):
                self.hear(EventKind.SIGNAL, action.name, **action.variables)

    @property
    def people(self) -> list[str]:
        """The names of the user tasks that are open, or their ids."""
        nodes = (self.graph.nodes[token.node] for token in self.state.tokens.values())
        return sorted(node.name or node.id for node in nodes if node.kind is Kind.USER)

    @property
    def asked(self) -> list[MakeTask]:
        return [action for action in self.actions if isinstance(action, MakeTask)]

    @property
    def waits(self) -> list[str]:
        return sorted(wait.node for wait in self.state.waits.values())

    @property
    def ended(self) -> bool:
        return self.status is Status.COMPLETED and not self.state.tokens
