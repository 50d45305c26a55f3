"""Facts in, decision out. Advancing with facts that are in already changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from app.process import errors
from app.process.board import Board, Evaluate, ModelError, TimeFault
from app.process.decision import Decision
from app.process.entering import enter, task_for
from app.process.facts import Changed, Completed, Continued, Fact, Failed, Happened, Started, Stopped, Thrown
from app.process.graph import Graph, Kind
from app.process.inclusive import settle_inclusive
from app.process.state import Phase, Scope, State, Status, Token, Wait
from app.process.timing import timing_fault

MOST_STEPS: Final = 10_000
"""Nodes that may be entered in one advance: more is a loop that never waits."""


def advance(
    graph: Graph,
    state: State,
    facts: Iterable[Fact],
    evaluate: Evaluate,
    time_fault: TimeFault = timing_fault,
    *,
    restless: bool = False,
) -> Decision:
    """What follows from `facts`, one after the other. Raises NeedsMore when a part of the state is not enough.

    Who knows the calendar brings a `time_fault` of their own; without one only the shape of a time is looked at.
    `restless`: so many advances have made each other necessary that one more would be a loop.
    """
    board = Board(graph, state, evaluate, time_fault, restless=restless)
    for fact in facts:
        if board.status in (Status.ACTIVE, Status.COMPENSATING):
            WORK_IN[type(fact)](board, fact)
            settle(board)
    return Decision(board.state(), tuple(board.actions), tuple(board.again))


def settle(board: Board) -> None:
    """Move all tokens that are due until every one of them stands."""
    steps = 0
    while True:
        while board.due:
            token = board.tokens.get(board.due.popleft())
            if token is not None:  # else it was taken away before its turn
                steps += 1
                _enter(board, token, steps)
        if not settle_inclusive(board):
            return


def _enter(board: Board, token: Token, steps: int) -> None:
    if steps > MOST_STEPS:
        board.block(
            token, Phase.ENTERING, ModelError(f"the model went on for {MOST_STEPS} steps without waiting", "loop")
        )
        return
    try:
        if board.node(token).commit_before and token.id not in board.continued:
            board.demand_rest()
            board.again.append(token.id)
            return
        board.continued.discard(token.id)
        board.note("entered", token)
        enter(board, token)
    except ModelError as error:
        board.block(board.tokens[token.id], Phase.ENTERING, error)


def _started(board: Board, fact: Started) -> None:
    if board.scopes:
        return
    root = Scope(board.next_number(), board.graph.process, variables=dict(fact.variables))
    board.scopes[root.id] = root
    start = board.graph.start(board.graph.process) if fact.start is None else board.graph.nodes[fact.start]
    if start is None:
        raise ValueError(f"{board.graph.process} has no none start event")
    board.spawn(start.id, root.id)


def _completed(board: Board, fact: Completed) -> None:
    token = board.tokens.get(fact.token)
    if token is None or token.phase is not Phase.STANDING or not _is_work(board, token):
        return
    local = {name: value for name, value in fact.variables.items() if name in token.variables}
    board.assign(token.scope, {name: value for name, value in fact.variables.items() if name not in local})
    variables = {**token.variables, **local, **fact.local_variables}
    board.leave(replace(token, variables=variables, stuck=False))


def _failed(board: Board, fact: Failed) -> None:
    token = board.tokens.get(fact.token)
    if token is None or token.phase is not Phase.STANDING or not _is_work(board, token):
        return
    if fact.undo and board.status is Status.ACTIVE and not board.undoing(token) and _can_be_undone(board):
        board.undo_instance(Status.FAILED_COMPENSATED)
    else:
        board.block(token, Phase.STANDING, ModelError(fact.message, "failed"))


def _thrown(board: Board, fact: Thrown) -> None:
    token = board.tokens.get(fact.token)
    if token is None or token.phase is not Phase.STANDING or not _is_work(board, token):
        return
    board.assign(token.scope, fact.variables)
    errors.throw(board, token, errors.BusinessError(fact.code, fact.message))


def _changed(board: Board, fact: Changed) -> None:
    token = board.tokens.get(fact.token)
    if token is None:
        return
    local = {name: value for name, value in fact.variables.items() if name in token.variables}
    board.assign(token.scope, {name: value for name, value in fact.variables.items() if name not in local})
    board.put(replace(token, variables={**token.variables, **local, **fact.local_variables}))


def _happened(board: Board, fact: Happened) -> None:
    wait = board.waits.get(fact.wait)
    if wait is None:
        return
    token = board.tokens[wait.token]
    board.assign(token.scope, fact.variables)
    board.note("happened", replace(token, node=wait.node))
    node = board.graph.nodes[wait.node]
    if node.kind is not Kind.BOUNDARY:
        board.close_waits(token)
        # Behind a gateway the token stands at the gateway: it goes on from the event that came.
        local = {**token.variables, **fact.local_variables}
        board.leave(replace(token, node=node.id, stuck=False, variables=local))
    elif node.interrupting:
        errors.interrupt(board, token)
        board.send(board.tokens[token.id], node.id)
    else:
        _count_happening(board, wait)
        board.spawn(node.id, token.scope)


def _continued(board: Board, fact: Continued) -> None:
    token = board.tokens.get(fact.token)
    if token is None:
        return
    if fact.open:
        if token.phase is Phase.STANDING:
            board.put(replace(token, stuck=False))
        return
    if token.phase is Phase.LEAVING:
        board.leave(replace(token, stuck=False))
    elif token.phase is Phase.ENTERING:
        board.put(replace(token, stuck=False))
        board.continued.add(token.id)
        board.due.append(token.id)
    elif token.stuck and token.phase is Phase.JOINING:
        board.put(replace(token, stuck=False))
    elif token.stuck and _is_work(board, token):
        _work_again(board, token)


def _work_again(board: Board, token: Token) -> None:
    """Ask again for the work that failed for good; what the token waits for beside it goes on as it was."""
    if board.node(token).work is None:
        board.put(replace(token, stuck=False))  # a person has it still
        return
    try:
        task = task_for(board, token, board.node(token))
    except ModelError as error:
        board.block(token, Phase.STANDING, error)
        return
    board.put(replace(token, stuck=False))
    board.actions.append(replace(task, again=True))


def _stopped(board: Board, fact: Stopped) -> None:
    if board.status is Status.COMPENSATING:
        return  # it is being undone already; a second rollback never begins
    if fact.compensate and _can_be_undone(board):
        board.undo_instance(Status.CANCELED)
        return
    board.demand_all()
    for token in list(board.tokens.values()):
        if token.id in board.tokens:
            board.cancel(token)
    board.due.clear()
    board.status = Status.CANCELED


def _is_work(board: Board, token: Token) -> bool:
    """Whether the token stands on something that is completed from outside by its id."""
    node = board.node(token)
    return node.kind in (Kind.TASK, Kind.USER, Kind.RECEIVE) or node.work is not None


def _can_be_undone(board: Board) -> bool:
    left = any(not one.used and one.handler is not None for one in board.subscriptions.values())
    return left or bool(board.runs)


def _count_happening(board: Board, wait: Wait) -> None:
    """A timer that has fired for the last time is not armed again; who knows the calendar decides (`fired` tells)."""
    board.waits[wait.id] = replace(wait, fired=wait.fired + 1)


WORK_IN: Final[Mapping[type[Any], Callable[[Board, Any], None]]] = {
    Started: _started,
    Completed: _completed,
    Failed: _failed,
    Thrown: _thrown,
    Changed: _changed,
    Happened: _happened,
    Continued: _continued,
    Stopped: _stopped,
}
