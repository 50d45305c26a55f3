"""Whatever happens to models with everything in them: nothing is lost, doubled or left over, and a part is enough."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from app.process.advance import advance
from app.process.decision import DropTask, MakeTask
from app.process.facts import Completed, Continued, Fact, Failed, Happened, Stopped, Thrown
from app.process.graph import Event, EventKind, Expression, Flow, Graph, Kind, Node
from app.process.state import NeedsMore, Phase, State
from tests.app.process.drawing import PROCESS, Instance, boundary, evaluate, node, start
from tests.app.process.test_parts import merged

PASS_ON = (Kind.TASK, Kind.PASS, Kind.SUBPROCESS, Kind.CATCH)
GATEWAYS = {"fork": Kind.PARALLEL, "some": Kind.INCLUSIVE, "one": Kind.EXCLUSIVE}
ENDS = (None, None, None, None, "E", "F", EventKind.TERMINATE, EventKind.COMPENSATION)
MOST_STEPS = 60


@dataclass
class Draughtsman:
    """Draws blocks behind a node, at random."""

    choose: random.Random
    nodes: list[Node] = field(default_factory=lambda: [start()])
    flows: list[Flow] = field(default_factory=list)

    def add(self, kind: Kind, scope: str, **more: object) -> str:
        if kind in PASS_ON:
            more |= {name: True for name in ("commit_before", "commit_after") if self.choose.random() < 0.07}
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(node(name, kind, scope, **more))
        return name

    def join(self, source: str, target: str, condition: str | None = None) -> None:
        said = None if condition is None else Expression(condition)
        self.flows.append(Flow(f"f{len(self.flows)}", source, target, said))

    def behind(self, source: str, kind: Kind, scope: str, **more: object) -> str:
        name = self.add(kind, scope, **more)
        self.join(source, name)
        return name

    def path(self, at: str, scope: str, depth: int) -> None:
        for _ in range(self.choose.randint(0, 2)):
            at = self.block(at, scope, depth)
        if self.choose.random() < 0.5:
            means = self.choose.choice(ENDS)
            event = Event(EventKind.ERROR, name=means) if means in ("E", "F") else Event(means) if means else None
            self.behind(at, Kind.END, scope, event=event)

    def block(self, at: str, scope: str, depth: int) -> str:
        """The node that the block ends with."""
        kinds = ["task", "task", "user", "pass", "receive", "events", "undo"]
        kind = self.choose.choice(kinds + ["fork", "some", "one", "sub", "sub"] * (depth > 0))
        if kind in GATEWAYS:
            return self.gateway(at, GATEWAYS[kind], scope, depth)
        if kind == "events":
            gate, joined = self.behind(at, Kind.EVENT_GATEWAY, scope), self.add(Kind.EXCLUSIVE, scope)
            for _ in range(2):
                self.join(self.behind(gate, Kind.CATCH, scope, event=Event(EventKind.MESSAGE, name="m")), joined)
            return joined
        if kind == "undo":
            return self.behind(at, Kind.THROW, scope, event=Event(EventKind.COMPENSATION))
        if kind == "sub":
            name = self.behind(at, Kind.SUBPROCESS, scope)
            self.path(self.add(Kind.START, name), name, depth - 1)
        elif kind == "receive":
            name = self.behind(at, Kind.RECEIVE, scope, event=Event(EventKind.MESSAGE, name="m"))
        else:
            name = self.behind(at, Kind(kind), scope)
        self.events_on(name, scope, depth)
        return name

    def gateway(self, at: str, kind: Kind, scope: str, depth: int) -> str:
        fork, joined = self.behind(at, kind, scope), self.add(kind, scope)
        for number in range(2):
            way = self.add(Kind.PASS, scope)
            condition = {Kind.INCLUSIVE: self.choose.choice(["True", "False"]), Kind.EXCLUSIVE: "False"}.get(kind)
            self.join(fork, way, condition if number == 0 else None)
            self.join(self.block(way, scope, depth - 1), joined)
        return joined

    def events_on(self, activity: str, scope: str, depth: int) -> None:
        if self.choose.random() < 0.25:
            interrupts = self.choose.random() < 0.5
            name = f"late{len(self.nodes)}"
            self.nodes.append(boundary(name, activity, EventKind.TIMER, scope, when="PT1H", interrupting=interrupts))
            self.path(name, scope, depth - 1)
        if self.choose.random() < 0.2:
            name = f"caught{len(self.nodes)}"
            self.nodes.append(boundary(name, activity, EventKind.ERROR, scope, name=self.choose.choice([None, "E"])))
            self.path(name, scope, depth - 1)
        if self.choose.random() < 0.3:
            handler = self.add(self.choose.choice([Kind.TASK, Kind.SUBPROCESS]), scope, for_compensation=True)
            if self.nodes[-1].kind is Kind.SUBPROCESS:
                self.block(self.add(Kind.START, handler), handler, 1)
            name = f"undo{len(self.nodes)}"
            self.nodes.append(boundary(name, activity, EventKind.COMPENSATION, scope, handler=handler))


def drawn(choose: random.Random) -> Graph:
    draughtsman = Draughtsman(choose)
    at = "start"
    for _ in range(choose.randint(1, 3)):
        at = draughtsman.block(at, PROCESS, 2)
    nodes = {one.id: one for one in draughtsman.nodes}
    flows = {flow.id: flow for flow in draughtsman.flows}
    return Graph(PROCESS, nodes, flows, parallel_compensation=choose.random() < 0.2)


def possible(run: Instance, choose: random.Random) -> list[Fact]:
    """What could happen next; empty when only joins are left, which wait for what has ended otherwise."""
    facts: list[Fact] = [Happened(wait) for wait in run.state.waits]
    for token in run.state.tokens.values():
        kind = run.graph.nodes[token.node].kind
        if token.stuck:
            facts.append(Continued(token.id))
        if token.phase is Phase.STANDING and kind in (Kind.TASK, Kind.USER, Kind.RECEIVE):
            facts += [Completed(token.id, {"x": 1})] * 3
        if token.phase is Phase.STANDING and kind is Kind.TASK and choose.random() < 0.3:
            facts += [Failed(token.id, "broken", choose.random() < 0.5), Thrown(token.id, choose.choice("EFG"))]
    return facts + [Stopped(choose.random() < 0.5)] * (bool(facts) and choose.random() < 0.1)


def loaded(state: State, facts: Sequence[Fact]) -> State:
    """As load_instance chooses."""
    named = {getattr(fact, "token", None) for fact in facts}
    named |= {state.waits[fact.wait].token for fact in facts if isinstance(fact, Happened)}
    named |= {scope.host for scope in state.scopes.values() if not scope.ended} | state.runs.keys()
    tokens = {t.id: t for t in state.tokens.values() if t.id in named or t.phase is Phase.JOINING}
    waits = {wait.id: wait for wait in state.waits.values() if wait.token in tokens}
    return replace(state, tokens=tokens, waits=waits, whole=False)


def check_work(run: Instance, told: set[int]) -> None:
    """Each token that stands on work has asked for it once, and what is gone has been ended or is dropped."""
    made = Counter(a.token for a in run.actions if isinstance(a, MakeTask) and not a.again)
    dropped = {a.token for a in run.actions if isinstance(a, DropTask)}
    assert set(made.values()) <= {1}
    assert all(token in run.state.tokens or token in dropped or token in told for token in made)
    for token in run.state.tokens.values():
        assert token.stuck or token.phase in (Phase.STANDING, Phase.JOINING), "nothing is left half-way"
        assert run.graph.nodes[token.node].kind is not Kind.TASK or token.stuck or made[token.id] == 1


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_anything_may_happen(seed: int) -> None:
    choose = random.Random(seed)
    run = Instance(drawn(choose)).start()
    told: set[int] = set()
    for _ in range(MOST_STEPS):
        can = possible(run, choose)
        if run.state.ended or not can:
            break
        facts = [choose.choice(can) for _ in range(choose.choice([1, 1, 1, 2, 3]))]
        before, whole = run.state, advance(run.graph, run.state, facts, evaluate)
        try:
            part = loaded(before, facts)
            decision = advance(run.graph, part, facts, evaluate)
            assert (merged(before, part, decision.state), decision.actions) == (whole.state, whole.actions)
        except NeedsMore:
            pass
        run.tell(*facts)  # and looks whether all that the state names is there
        told |= {fact.token for fact in facts if isinstance(fact, Completed | Thrown | Failed)}
        check_work(run, told)
    if not run.state.ended and not possible(run, choose):
        assert any(run.graph.nodes[t.node].kind is Kind.PARALLEL for t in run.state.tokens.values())
