"""Business errors: who catches one, and what that interrupts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.process.board import Board, ModelError
from app.process.decision import DropTask
from app.process.graph import EventKind, Kind, Node
from app.process.state import Phase, Token


@dataclass(frozen=True, slots=True)
class BusinessError:
    """What was thrown: a code, and a text for people."""

    code: str
    message: str | None = None


def throw(board: Board, token: Token, error: BusinessError) -> None:
    """Hand an error from where a token stands outwards, until a boundary event catches it.

    Nobody does: the path that threw it ends quietly, as at a none end event. Inside a handler that is an incident:
    what it should have undone is not undone.
    """
    for host in _outwards(board, token):
        catcher = _catcher(board, host, error.code)
        if catcher is not None:
            _catch(board, host, catcher, error)
            return
        if host.undoes is not None:
            board.block(token, Phase.STANDING, ModelError(f"the error {error.code} was thrown while undoing", "failed"))
            return
    board.close_waits(token)
    board.empty(token)
    board.consume(token)


def _outwards(board: Board, token: Token) -> Iterator[Token]:
    """The token, then those that stand on the subprocesses around it."""
    at: Token | None = token
    while at is not None:
        yield at
        host = board.scopes[at.scope].host
        at = None if host is None else board.tokens.get(host)


def _catcher(board: Board, host: Token, code: str) -> Node | None:
    """The boundary event that catches a code here: one for this very code goes before one for any."""
    catchers = [node for node in board.graph.boundaries(host.node) if node.event and node.event.kind is EventKind.ERROR]
    exact = (node for node in catchers if node.event and node.event.name == code)
    every = (node for node in catchers if node.event and node.event.name is None)
    return next(exact, None) or next(every, None)


def _catch(board: Board, host: Token, catcher: Node, error: BusinessError) -> None:
    assert catcher.event is not None
    interrupt(board, host)
    event = catcher.event
    told = {event.code_variable: error.code, event.message_variable: error.message}
    board.assign(host.scope, {name: value for name, value in told.items() if name is not None})
    board.send(board.tokens[host.id], catcher.id)


def interrupt(board: Board, host: Token) -> None:
    """Stop the activity that a token stands on, with all that is inside; the token itself stays to go another way."""
    if board.node(host).kind is Kind.TASK:
        board.actions.append(DropTask(host.id))
    board.close_waits(host)
    board.empty(host)
    board.put(replace(host, stuck=False, variables={}))
