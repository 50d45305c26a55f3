"""What a user task asks of people. What an expression gives no value for is left out: the task is there anyhow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.process.board import Board, ModelError
from app.process.decision import AskPerson
from app.process.graph import Duty, Node, Text
from app.process.state import Token


def ask(board: Board, token: Token, node: Node, view: Mapping[str, Any]) -> AskPerson:
    duty = node.duty or Duty()

    def given(text: Text) -> Any:
        try:
            return board.value(text, view)
        except ModelError:
            return None

    return AskPerson(
        token.id,
        node.id,
        assignee=_text(given(duty.assignee)),
        candidate_users=_names(given(duty.candidate_users)),
        candidate_groups=_names(given(duty.candidate_groups)),
        due=_text(given(duty.due)),
        follow_up=_text(given(duty.follow_up)),
        priority=_number(given(duty.priority)),
        name=_text(given(duty.name)) or node.name,
        description=_text(given(duty.description)),
        form_key=_text(given(duty.form_key)),
    )


def _text(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _names(value: Any) -> tuple[str, ...]:
    """Of a text with commas, or of a list."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
    return tuple(dict.fromkeys(name for part in parts if (name := _text(part)) is not None))


def _number(value: Any) -> int | None:
    try:
        number = None if value is None or isinstance(value, bool) else int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number is not None and abs(number) < 2**31 else None
