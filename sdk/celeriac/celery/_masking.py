"""Variables, results and errors as people may see them in Flower: short, and without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

LONGEST: Final = 1000
_LONGEST_TEXT: Final = 100
_MOST_ITEMS: Final = 20
_DEEPEST: Final = 4

MASK: Final = "'***'"
_SECRET_WORD: Final = re.compile(
    "passw(or)?d|passphrase|pwd|secrets?|tokens?|credentials?|authorization|auth|cookies?|session|apikey|otp|pin|cvv|cvc"
    "|signature|jwt|bearer"
)
_KEY_WORDS: Final = frozenset(("api", "access", "private", "secret", "signing", "encryption", "account", "storage"))
_SECRET_PARTS: Final = ("password", "passwd", "passphrase", "secret", "credential", "apikey", "accesstoken")
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_USER_INFO: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^/@\s]+@")


def shown(value: Any) -> str:
    """`value` much as Python writes it, with values of secret names masked and all that is long cut."""
    return _cut(_shown(value, 0), LONGEST)


def is_secret(name: str) -> bool:
    """Whether what bears this name had better not be seen."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if any(map(_SECRET_WORD.fullmatch, words)) or any(part in "".join(words) for part in _SECRET_PARTS):
        return True
    return any(word == "key" and before in _KEY_WORDS for before, word in pairwise(words))


def without_user(text: str) -> str:
    """Addresses without the name and password in front of the host."""
    return _USER_INFO.sub(r"\g<scheme>***@", text)


def _shown(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return repr(_cut(without_user(value[: 2 * _LONGEST_TEXT]), _LONGEST_TEXT))
    if isinstance(value, Mapping):
        if depth >= _DEEPEST:
            return "{…}"
        inside = [
            f"{_shown(name, depth)}: {MASK if is_secret(str(name)) else _shown(item, depth + 1)}"
            for name, item in list(value.items())[:_MOST_ITEMS]
        ]
        return "{" + ", ".join(inside + _rest(value)) + "}"
    if isinstance(value, list | tuple):
        if depth >= _DEEPEST:
            return "[…]"
        return "[" + ", ".join([_shown(item, depth + 1) for item in value[:_MOST_ITEMS]] + _rest(value)) + "]"
    return _cut(str(value), _LONGEST_TEXT)


def _rest(value: Any) -> list[str]:
    return ["…"] if len(value) > _MOST_ITEMS else []


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
