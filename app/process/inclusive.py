"""Inclusive joins, by the rule of the standard: wait for whatever could still come by a flow that has no token yet.

A token elsewhere that could also come by a flow that has one is not waited for. Which joins may go on depends on where
tokens are alone, never on who came first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.process.board import Board, ModelError
from app.process.graph import Flow
from app.process.state import Phase, Token


@dataclass(frozen=True, slots=True)
class Gathering:
    """The tokens that wait at one inclusive gateway in one scope, the oldest first, and those they wait for."""

    node: str
    scope: int
    waiting: Sequence[Token]
    awaited: Sequence[Token]


def settle_inclusive(board: Board) -> bool:
    """Let one inclusive gateway go on, if one may; False when there is none. Called when nothing else moves.

    A gateway whose conditions fail is an incident of its oldest token and is passed over.
    """
    gatherings = _gatherings(board)
    ready = [one for one in gatherings if not one.awaited] or _waiting_for_each_other(gatherings)[:1]
    for one in ready:
        oldest = one.waiting[0]
        try:
            flows = board.ways_out(board.node(oldest), board.view(oldest))
        except ModelError as error:
            board.block(oldest, Phase.JOINING, error)
            continue
        go_on_together(board, list(_one_by_flow(one.waiting).values()), flows)
        return True
    return False


def go_on_together(board: Board, joined: Sequence[Token], flows: Sequence[Flow]) -> None:
    """Several tokens become one, which goes on along `flows`."""
    first, *rest = joined
    board.note("left", first)
    for token in rest:
        del board.tokens[token.id]
        board.discount(token.scope)
    board.fork(board.tokens[first.id], flows)


def _gatherings(board: Board) -> list[Gathering]:
    """All gateways with waiting tokens of which none has an incident."""
    if not board.graph.inclusive:
        return []
    waiting: dict[tuple[str, int], list[Token]] = {}
    for token in sorted(board.tokens.values(), key=lambda one: one.id):
        if token.phase is Phase.JOINING:
            waiting.setdefault((token.node, token.scope), []).append(token)
    found = []
    for node in board.graph.inclusive:
        for (place, scope), tokens in waiting.items():
            if place == node and not any(token.stuck for token in tokens):
                found.append(Gathering(node, scope, tokens, _awaited(board, node, scope, tokens)))
    return found


def _awaited(board: Board, node: str, scope: int, waiting: Sequence[Token]) -> list[Token]:
    """The tokens of the scope that can come by a flow without a token, and by none with one."""
    come = {token.via for token in waiting}
    if all(flow.id in come for flow in board.graph.incoming(node)):
        return []
    ways = board.graph.ways_to(node)

    def is_awaited(token: Token) -> bool:
        if token.node == node:
            return token.via not in come  # it waits itself, or at a commit point before the gateway
        by = ways.get(token.node)
        return by is not None and by.isdisjoint(come)

    return [token for token in board.tokens_in(scope) if is_awaited(token)]


def _waiting_for_each_other(gatherings: Sequence[Gathering]) -> list[Gathering]:
    """Those that wait only for one another, which would be for ever: the first of the document is to go on."""
    left = list(gatherings)
    while True:
        inside = {token.id for one in left for token in one.waiting}
        closed = [one for one in left if all(token.id in inside for token in one.awaited)]
        if len(closed) == len(left):
            return left
        left = closed


def _one_by_flow(waiting: Sequence[Token]) -> Mapping[str | None, Token]:
    """The oldest token of each flow, the oldest of all first."""
    by_flow: dict[str | None, Token] = {}
    for token in waiting:
        by_flow.setdefault(token.via, token)
    return by_flow
