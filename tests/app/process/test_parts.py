"""What the engine loads of a large instance is enough: a part decides as the whole does, or asks for more."""

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from app.process.advance import advance
from app.process.facts import Completed, Fact, Failed
from app.process.state import NeedsMore, Phase, State, Status
from tests.app.process.drawing import Instance, evaluate
from tests.app.process.test_properties import Block, blocks, model


def part_of(state: State, token: int) -> State:
    """As load_instance chooses: the token, those on subprocesses, those that wait for others, and their waits."""
    hosts = {scope.host for scope in state.scopes.values() if not scope.ended}
    tokens = {t.id: t for t in state.tokens.values() if t.id == token or t.id in hosts or t.phase is Phase.JOINING}
    waits = {wait.id: wait for wait in state.waits.values() if wait.token in tokens}
    return replace(state, tokens=tokens, waits=waits, whole=False)


def merged(whole: State, part: State, after: State) -> State:
    """The whole after what was decided about a part of it."""
    tokens = {t: token for t, token in whole.tokens.items() if t not in part.tokens} | dict(after.tokens)
    waits = {w: wait for w, wait in whole.waits.items() if w not in part.waits} | dict(after.waits)
    return replace(after, tokens=tokens, waits=waits, whole=True)


@settings(max_examples=200, deadline=None)
@given(blocks, st.integers(0, 5), st.booleans())
def test_a_part_decides_as_the_whole_does(block: Block, seed: int, fails: bool) -> None:
    run, choose = Instance(model(block)).start(), random.Random(seed)
    while run.status in (Status.ACTIVE, Status.COMPENSATING) and run.work:
        token = run.token(choose.choice(run.work)).id
        fact: Fact = Failed(token, "broken") if fails and choose.random() < 0.2 else Completed(token, {"x": seed})
        before = run.state
        run.tell(fact)
        part = part_of(before, token)
        try:
            decision = advance(run.graph, part, [fact], evaluate)
        except NeedsMore:
            continue
        assert merged(before, part, decision.state) == run.state
