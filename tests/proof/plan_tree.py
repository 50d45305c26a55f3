"""The plans that Postgres really uses, also for statements inside functions: read from what `debug_print_plan` tells.

EXPLAIN shows a function as one node, and auto_explain is not part of every build; this switch is. The server prints
each plan as a tree of nodes, `{NAME :field value …}`, in the detail of a message.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

TOKEN = re.compile(r"\{[A-Z_0-9]+|[{}()]|:[\w.]+|(?:\\.|[^\s(){}\\])+")
SCANS = {"SEQSCAN", "SAMPLESCAN", "INDEXSCAN", "INDEXONLYSCAN", "BITMAPHEAPSCAN", "TIDSCAN", "TIDRANGESCAN"}
SORTS = {"SORT", "INCREMENTALSORT"}


@dataclass
class Node:
    """One node of a printed tree. Names of fields lose what stands before their last dot: it differs by version."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)

    def below(self) -> Iterator["Node"]:
        yield from _nodes(list(self.fields.values()))


def _nodes(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _nodes(one)


def parse(text: str) -> Node:
    """The node that a text holds."""
    stack: list[Any] = [[]]
    for token in TOKEN.findall(text):
        top = stack[-1]
        if token[0] == "{":
            stack.append(Node(token[1:]))
        elif token == "(":
            stack.append([])
        elif token in "})":
            _add(stack[-2], stack.pop())
        elif token[0] == ":" and isinstance(top, Node):
            top.fields[token[1:].rsplit(".", 1)[-1]] = []
        else:
            _add(top, token)
    (root,) = stack[0]
    assert isinstance(root, Node)
    return root


def _add(top: Any, value: Any) -> None:
    if isinstance(top, list):
        top.append(value)
    elif top.fields:
        next(reversed(top.fields.values())).append(value)


@dataclass(frozen=True)
class Scan:
    """How a table is read, and through which nodes its rows go on, outermost first."""

    table: str
    way: str
    by_key: bool
    above: tuple[str, ...]

    @property
    def is_sorted_unbounded(self) -> bool:
        """Whether a Sort has to take in as many of its rows as there happen to be."""
        sorts = [place for place, name in enumerate(self.above) if name in SORTS]
        return bool(sorts) and "LIMIT" not in self.above[sorts[-1] :] and not self.by_key


@dataclass(frozen=True)
class Plan:
    """A plan of one statement, reduced to the scans of the tables that were asked about."""

    statement: str
    scans: tuple[Scan, ...]


class PlanCollector:
    """Hears every plan that a connection makes from now on."""

    def __init__(self, connection: psycopg.Connection[Any], tables: dict[int, str], keys: set[int]) -> None:
        self._tables, self._keys = tables, keys
        self._heard: list[tuple[str, str]] = []
        connection.add_notice_handler(self._hear)
        connection.execute("set client_min_messages = log; set debug_pretty_print = off; set debug_print_plan = on")

    def _hear(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.message_primary == "plan:" and notice.message_detail:
            self._heard.append((notice.context or "", notice.message_detail))

    def plans(self) -> list[Plan]:
        """All that touch one of the tables."""
        read = [Plan(context, tuple(self._scans(parse(text)))) for context, text in self._heard]
        return [plan for plan in read if plan.scans]

    def _scans(self, statement: Node) -> Iterator[Scan]:
        relations = [int(entry.fields["relid"][0]) if "relid" in entry.fields else 0 for entry in _tables_of(statement)]
        subplans = _placed(statement.fields["subplans"])
        yield from self._walk(statement.fields["planTree"], relations, subplans, ())
        for subplan in subplans:
            yield from self._walk(subplan, relations, subplans, ())

    def _walk(self, value: Any, relations: list[int], subplans: list[Any], above: tuple[str, ...]) -> Iterator[Scan]:
        for node in _nodes(value):
            if node.name in SCANS and (relation := relations[int(node.fields["scanrelid"][0]) - 1]) in self._tables:
                by_key = int(node.fields.get("indexid", ["0"])[0]) in self._keys and bool(
                    list(_nodes(node.fields["indexqual"]))
                )
                yield Scan(self._tables[relation], node.name, by_key, above)
            yield from self._walk(list(node.fields.values()), relations, subplans, (*above, node.name))
            if node.name == "CTESCAN":
                yield from self._walk(
                    subplans[int(node.fields["ctePlanId"][0]) - 1], relations, subplans, (*above, node.name)
                )


def _tables_of(statement: Node) -> list[Node]:
    return list(_nodes(statement.fields["rtable"]))


def _placed(subplans: list[Any]) -> list[Any]:
    """The subplans by their number; those that were planned away are holes."""
    return subplans[0] if subplans and isinstance(subplans[0], list) else []
