"""Business errors: who catches one, and what that interrupts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.process.board import Board, ModelError
from app.process.graph import EventKind, Node
from app.process.state import Phase, Token


@dataclass(frozen=True, slots=True)
class BusinessError:
    """What was thrown: a code, and a text for people."""

    code: str
    message: str | None = None


def throw(board: Board, token: Token, error: BusinessError) -> None:
    """Hand an error from where a token stands outwards, until a boundary event catches it.

    When nobody does: the path that threw it ends quietly, as at a none end event, in a model that catches no errors
    there. Where errors are caught but not this one, and inside a handler (what it should have undone is not undone),
    it is an incident.
    """
    caught_others = False
    for host in board.outwards(token):
        catchers = [node for node in board.graph.boundaries(host.node) if node.catches(EventKind.ERROR)]
        catcher = _catcher(catchers, error.code)
        if catcher is not None:
            _catch(board, host, catcher, error)
            return
        if host.undoes is not None:
            _refuse(board, token, f"the error {error.code} was thrown while undoing")
            return
        caught_others = caught_others or bool(catchers)
    if caught_others:
        _refuse(board, token, f"no boundary event catches the error {error.code}")
        return
    board.close_waits(token)
    board.note("left", token)
    board.consume(token)


def _refuse(board: Board, token: Token, reason: str) -> None:
    """An incident. Retried, work is done again, and an end event throws again."""
    phase = Phase.ENTERING if board.node(token).work is None else Phase.STANDING
    board.block(token, phase, ModelError(reason, "model"))


def _catcher(catchers: Sequence[Node], code: str) -> Node | None:
    """The boundary event that catches a code: one for this very code goes before one for any."""
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
    board.drop(host)
    board.empty(host)
    board.note("canceled", host)
    board.put(replace(host, stuck=False, variables={}))
