"""What each kind of node does with a token that comes to it: one function a kind."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from app.process import errors
from app.process.board import Board, ModelError
from app.process.decision import MakeTask, ThrowSignal
from app.process.duties import ask
from app.process.graph import Event, EventKind, Flow, Kind, Node
from app.process.inclusive import go_on_together
from app.process.state import Phase, Scope, Token

Enter = Callable[[Board, Token, Node], None]


def enter(board: Board, token: Token) -> None:
    """Let a token enter its node. Raises ModelError, and then has changed nothing."""
    node = board.node(token)
    ENTER[node.kind](board, token, node)


def enter_task(board: Board, token: Token, node: Node) -> None:
    """Work for somebody outside; the token stands until it is completed, fails for good or throws."""
    token, openings = _begin(board, token, node)
    task = task_for(board, token, node)
    board.stand(token, openings)
    board.actions.append(task)


def task_for(board: Board, token: Token, node: Node) -> MakeTask:
    """What a token on this node asks for. Raises ModelError."""
    assert node.work is not None
    view = board.view(token)
    return MakeTask(
        token.id,
        node.id,
        topic=board.text(node.work.topic, view, "the topic"),
        variables=dict(view),
        priority=_priority(board, node.work.priority, view),
        retry=None if node.work.retry is None else board.text(node.work.retry, view, "the retry cycle"),
        properties=node.work.properties,
    )


def enter_waiting(board: Board, token: Token, node: Node) -> None:
    """Work for a person, or a message that is to come: the token stands."""
    token, openings = _begin(board, token, node)
    if node.kind is Kind.RECEIVE:
        openings = [*board.openings([node], board.view(token)), *openings]
    board.stand(token, openings)
    if node.kind is Kind.USER:
        board.actions.append(ask(board, token, node, board.view(token)))


def enter_script(board: Board, token: Token, node: Node) -> None:
    assert node.script is not None
    token, _ = _begin(board, token, node)
    value = board.value(node.script.expression, board.view(token))
    if node.script.result_variable is not None:
        token = _set(board, token, {node.script.result_variable: value})
    board.leave(token)


def enter_passing(board: Board, token: Token, node: Node) -> None:
    """Start and boundary events have happened already; manual and abstract tasks are nobody's here."""
    token, _ = _begin(board, token, node)
    board.leave(token)


def enter_subprocess(board: Board, token: Token, node: Node) -> None:
    """A scope of its own begins; the token stands for it until its last path has ended."""
    start = board.graph.start(node.id)
    assert start is not None
    token, openings = _begin(board, token, node)
    scope = Scope(board.next_number(), node.id, token.scope, token.id, variables=token.variables)
    board.scopes[scope.id] = scope
    board.stand(replace(token, variables={}), openings)
    board.spawn(start.id, scope.id)


def enter_exclusive(board: Board, token: Token, node: Node) -> None:
    """The first flow, in the order of the document, whose condition holds; else the default one."""
    view = board.view(token)
    board.fork(token, [_first_way(board, node, view)] if board.graph.outgoing(node.id) else [])


def enter_parallel(board: Board, token: Token, node: Node) -> None:
    """Wait until a token has come by each flow, then go on along all of them."""
    incoming = board.graph.incoming(node.id)
    board.put(replace(token, phase=Phase.JOINING))
    waiting = board.joining(node.id, token.scope)
    if board.graph.counting_joins:
        joined = waiting[: len(incoming)] if len(waiting) >= len(incoming) else []
    else:
        by_flow = {other.via: other for other in reversed(waiting)}
        joined = [by_flow[flow.id] for flow in incoming if flow.id in by_flow]
        joined = joined if len(joined) == len(incoming) else []
    if joined:
        go_on_together(board, joined, list(board.graph.outgoing(node.id)))


def enter_inclusive(board: Board, token: Token, node: Node) -> None:
    """Wait for every token that can still come here; app/process/inclusive.py looks when nothing else moves."""
    board.put(replace(token, phase=Phase.JOINING))


def enter_event_gateway(board: Board, token: Token, node: Node) -> None:
    """Wait for whichever of the events behind it comes first."""
    behind = [board.graph.nodes[flow.target] for flow in board.graph.outgoing(node.id)]
    openings = board.openings(behind, board.view(token))
    board.stand(token, openings)


def enter_catch(board: Board, token: Token, node: Node) -> None:
    token, _ = _begin(board, token, node)
    openings = board.openings([node], board.view(token))
    if openings:
        board.stand(token, openings)
    else:
        board.leave(token)  # the catch side of a link


def enter_throw(board: Board, token: Token, node: Node) -> None:
    """Throw, then go on; a compensation event stands until all is undone."""
    if node.work is not None:
        enter_task(board, token, node)
        return
    event = node.event or Event(EventKind.NONE)
    token, _ = _begin(board, token, node)
    if event.kind is EventKind.COMPENSATION:
        _compensate(board, token, event)
        return
    if event.kind is EventKind.SIGNAL:
        assert event.name is not None
        board.demand_rest()
        view = board.view(token)
        board.actions.append(ThrowSignal(board.text(event.name, view, "the name of the signal"), dict(view)))
    board.leave(token)


def enter_end(board: Board, token: Token, node: Node) -> None:
    """The path ends; the event says what else that means."""
    event = node.event or Event(EventKind.NONE)
    if event.kind is EventKind.ERROR:
        code = "" if event.name is None else board.text(event.name, board.view(token), "the error code")
        errors.throw(board, token, errors.BusinessError(code))
    elif event.kind is EventKind.TERMINATE:
        for other in board.tokens_in(token.scope):
            if other.id != token.id and other.id in board.tokens:
                board.cancel(other)
        board.consume(token)
    else:
        enter_throw(board, token, node)


def enter_link(board: Board, token: Token, node: Node) -> None:
    assert node.link is not None
    board.send(token, node.link)


ENTER: Final[Mapping[Kind, Enter]] = {
    Kind.START: enter_passing,
    Kind.END: enter_end,
    Kind.TASK: enter_task,
    Kind.USER: enter_waiting,
    Kind.RECEIVE: enter_waiting,
    Kind.SCRIPT: enter_script,
    Kind.PASS: enter_passing,
    Kind.EXCLUSIVE: enter_exclusive,
    Kind.PARALLEL: enter_parallel,
    Kind.INCLUSIVE: enter_inclusive,
    Kind.EVENT_GATEWAY: enter_event_gateway,
    Kind.SUBPROCESS: enter_subprocess,
    Kind.CATCH: enter_catch,
    Kind.THROW: enter_throw,
    Kind.BOUNDARY: enter_passing,
    Kind.LINK: enter_link,
}


def _begin(board: Board, token: Token, node: Node) -> tuple[Token, list[Any]]:
    """What every activity begins with, evaluated and not yet put: its inputs, and what its boundary waits for."""
    inputs = board.assignments(node.inputs, board.view(token))
    begun = replace(token, variables=inputs)
    view = ChainMap(inputs, dict(board.view(token)))
    return begun, list(board.openings(board.graph.boundaries(node.id), view))


def _set(board: Board, token: Token, values: Mapping[str, Any]) -> Token:
    """Set variables as seen from an activity: those local to it stay local."""
    local = {name: value for name, value in values.items() if name in token.variables}
    board.assign(token.scope, {name: value for name, value in values.items() if name not in local})
    return board.put(replace(token, variables={**token.variables, **local})) if local else token


def _priority(board: Board, priority: Any, view: Mapping[str, Any]) -> int | None:
    given = board.value(priority, view)
    if given is not None and (isinstance(given, bool) or not isinstance(given, int)):
        raise ModelError("the priority must be a whole number")
    return given


def _first_way(board: Board, node: Node, view: Mapping[str, Any]) -> Flow:
    for flow in board.graph.outgoing(node.id):
        if flow.id != node.default and (flow.condition is None or board.holds(flow.condition, view)):
            return flow
    if node.default is None:
        raise ModelError("no condition of an outgoing flow holds, and there is no default flow", "model")
    return board.graph.flows[node.default]


def _compensate(board: Board, token: Token, event: Event) -> None:
    board.demand_all()
    claimed = board.claimed()
    of_scope = (s for s in board.subscriptions.values() if s.scope == token.scope and not s.used)
    wanted = [s for s in of_scope if s.id not in claimed and event.activity in (None, s.activity)]
    if not wanted:
        board.leave(token)
        return
    board.stand(token)
    board.run(token.id, wanted)
