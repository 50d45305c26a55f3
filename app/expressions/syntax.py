"""Reads JUEL: `${…}` and `#{…}`, alone or within text, into a tree.

Only what changes nothing and always ends is read: variables, paths, operators, literals, and a few functions. Methods
of beans and Java objects are refused when the model is deployed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

LONGEST: Final = 4096
"""Characters that one expression may have."""

DEEPEST: Final = 50
MOST_DIGITS: Final = 400


class SyntaxFault(ValueError):
    """The text is no expression that can be run; says where and why."""


@dataclass(frozen=True, slots=True)
class Literal:
    """true, false, null, a number or text."""

    value: str | int | Decimal | bool | None


@dataclass(frozen=True, slots=True)
class Path:
    """A variable, and the names and positions inside it."""

    variable: str
    inside: tuple[Tree, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A known function with its arguments; operators are functions, too."""

    function: str
    arguments: tuple[Tree, ...]


Tree = Literal | Path | Call

OPERATORS: Final = {
    "==": "equal", "eq": "equal", "!=": "unequal", "ne": "unequal",
    "<": "less", "lt": "less", ">": "greater", "gt": "greater",
    "<=": "at_most", "le": "at_most", ">=": "at_least", "ge": "at_least",
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "div": "divide", "%": "modulo", "mod": "modulo",
    "&&": "and", "and": "and", "||": "or", "or": "or",
}  # fmt: skip
LEVELS: Final = (
    ("||", "or"), ("&&", "and"), ("==", "!=", "eq", "ne"), ("<", ">", "<=", ">=", "lt", "gt", "le", "ge"),
    ("+", "-"), ("*", "/", "%", "div", "mod"),
)  # fmt: skip
PREFIXES: Final = {"-": "negate", "!": "not", "not": "not", "empty": "empty"}
WORDS: Final = {"true": True, "false": False, "null": None}
RESERVED: Final = frozenset({*OPERATORS, *PREFIXES, *WORDS, "instanceof"})
# What `execution` knows: attributes without arguments, and functions of one name.
EXECUTION: Final = {
    "processBusinessKey": "business_key", "businessKey": "business_key",
    "processInstanceId": "instance_id", "id": "instance_id",
    "getProcessBusinessKey": "business_key", "getBusinessKey": "business_key", "getProcessInstanceId": "instance_id",
}  # fmt: skip
OF_A_NAME: Final = {"getVariable": "variable", "hasVariable": "has_variable"}

TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<name>[^\W\d][\w$]*)
      | (?P<sign>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]])
    )""",
    re.VERBOSE | re.DOTALL,
)


def parse(text: str) -> Tree:
    """The tree of the inside of one `${…}`. Raises SyntaxFault."""
    if len(text) > LONGEST:
        raise SyntaxFault(f"an expression must not have over {LONGEST} characters")
    reader = _Reader(list(_tokens(text)))
    tree = reader.expression()
    reader.end()
    return tree


def pieces(text: str) -> list[str | Tree]:
    """What a template is made of: text, and trees of the expressions in it. Raises SyntaxFault."""
    found: list[str | Tree] = []
    at = 0
    while (opening := _opening(text, at)) is not None:
        if opening > at:
            found.append(text[at:opening])
        closing = _closing(text, opening + 2)
        found.append(parse(text[opening + 2 : closing]))
        at = closing + 1
    if at < len(text) or not found:
        found.append(text[at:])
    return found


def has_expression(text: str) -> bool:
    """Whether the text holds any `${…}` or `#{…}`."""
    return _opening(text, 0) is not None


def _opening(text: str, at: int) -> int | None:
    found = re.compile(r"[$#]\{").search(text, at)
    return None if found is None else found.start()


def _closing(text: str, at: int) -> int:
    """Where the brace that ends an expression is: not one inside a text."""
    quote: str | None = None
    while at < len(text):
        letter = text[at]
        if quote is not None:
            if letter == "\\":
                at += 1
            elif letter == quote:
                quote = None
        elif letter in "'\"":
            quote = letter
        elif letter == "}":
            return at
        at += 1
    raise SyntaxFault("an expression is opened and not closed")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while text[at:].strip():
        found = TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise SyntaxFault(f"there is something that no expression has at character {at + 1}")
        yield _Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup))
        at = found.end()


def _number(text: str) -> int | Decimal:
    if not re.search(r"[.eE]", text):
        return int(text)
    number = Decimal(text)
    if abs(number.adjusted()) > MOST_DIGITS:
        raise SyntaxFault("a number in an expression is too large or too small")
    return number


class _Reader:
    """Recursive descent over the tokens; the nesting is bounded."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def expression(self) -> Tree:
        self._deeper()
        condition = self._level(0)
        if self._take("?"):
            yes = self.expression()
            self._expect(":")
            condition = Call("choose", (condition, yes, self.expression()))
        self._depth -= 1
        return condition

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise SyntaxFault(f"the expression should end at character {self._tokens[self._at].at + 1}")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise SyntaxFault(f"an expression must not be nested over {DEEPEST} levels deep")

    def _level(self, level: int) -> Tree:
        if level == len(LEVELS):
            return self._prefixed()
        left = self._level(level + 1)
        while (sign := self._take(*LEVELS[level])) is not None:
            left = Call(OPERATORS[sign], (left, self._level(level + 1)))
        return left

    def _prefixed(self) -> Tree:
        signs: list[str] = []
        while (sign := self._take(*PREFIXES)) is not None:
            signs.append(sign)
            self._deeper()
        tree = self._value()
        self._depth -= len(signs)
        for sign in reversed(signs):
            tree = Call(PREFIXES[sign], (tree,))
        return tree

    def _value(self) -> Tree:
        if self._take("("):
            tree = self.expression()
            self._expect(")")
            if self._sees(".", "["):
                raise self._fault("a path begins with a variable")
            return tree
        token = self._next()
        if token.kind == "number":
            return Literal(_number(token.text))
        if token.kind == "text":
            if self._sees(".", "["):
                raise self._fault("methods of text cannot be run")
            return Literal(re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL))
        if token.kind != "name":
            raise SyntaxFault(f"there should be a value at character {token.at + 1}")
        if token.text in WORDS:
            return Literal(WORDS[token.text])
        if token.text in RESERVED:
            raise SyntaxFault(f"there should be a value, not {token.text}, at character {token.at + 1}")
        return self._named(token)

    def _named(self, token: _Token) -> Tree:
        if token.text == "now" and self._take("("):
            self._expect(")")
            return Call("now", ())
        if token.text == "execution" and self._take("."):
            return self._of_execution()
        inside: list[Tree] = []
        while True:
            if self._take("."):
                inside.append(Literal(self._name()))
            elif self._take("["):
                inside.append(self.expression())
                self._expect("]")
            elif self._sees("("):
                raise self._fault("methods and functions cannot be run")
            else:
                return Path(token.text, tuple(inside))

    def _of_execution(self) -> Tree:
        name = self._name()
        if name in EXECUTION:
            if self._take("("):
                self._expect(")")
            return Call(EXECUTION[name], ())
        if name in OF_A_NAME:
            self._expect("(")
            argument = self.expression()
            self._expect(")")
            return Call(OF_A_NAME[name], (argument,))
        raise self._fault(
            "of execution only getVariable, hasVariable, the business key and the instance's id are known"
        )

    def _name(self) -> str:
        token = self._next()
        if token.kind != "name":
            raise SyntaxFault(f"there should be a name at character {token.at + 1}")
        return token.text

    def _next(self) -> _Token:
        if self._at == len(self._tokens):
            raise SyntaxFault("the expression ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _sees(self, *signs: str) -> bool:
        return self._at < len(self._tokens) and self._is(self._tokens[self._at], signs)

    def _take(self, *signs: str) -> str | None:
        if not self._sees(*signs):
            return None
        self._at += 1
        return self._tokens[self._at - 1].text

    def _expect(self, sign: str) -> None:
        if self._take(sign) is None:
            raise self._fault(f"there should be {sign}")

    def _fault(self, reason: str) -> SyntaxFault:
        at = self._tokens[self._at].at + 1 if self._at < len(self._tokens) else None
        return SyntaxFault(f"{reason} at character {at}" if at else f"{reason} at the end")

    @staticmethod
    def _is(token: _Token, signs: tuple[str, ...]) -> bool:
        return token.kind in ("sign", "name") and token.text in signs
