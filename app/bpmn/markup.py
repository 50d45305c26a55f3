"""XML that cannot hurt: no document type, no entities, nothing fetched, and limits on everything.

expat reads; we keep elements with their lines. The one parser for whatever comes as a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

LARGEST_BYTES: Final = 4 * 1024 * 1024
MOST_ELEMENTS: Final = 100_000
MOST_ATTRIBUTES: Final = 200
DEEPEST: Final = 100
LONGEST_ATTRIBUTE: Final = 8_192

Name = tuple[str, str]
"""Namespace and local name."""


class Unreadable(ValueError):
    """The bytes are no XML that we read; `line` is where, from 1."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


@dataclass(slots=True)
class Element:
    """One element: name, attributes, children, its own text, and the line it begins on."""

    name: Name
    attributes: Mapping[Name, str]
    line: int
    parent: Element | None = None
    children: list[Element] = field(default_factory=list)
    text: str = ""

    @property
    def id(self) -> str | None:
        return self.attributes.get(("", "id"))

    def get(self, local: str) -> str | None:
        """An attribute without a namespace, or None."""
        return self.attributes.get(("", local))

    def child(self, *names: Name) -> Element | None:
        return next((child for child in self.children if child.name in names), None)

    def walk(self) -> Iterator[Element]:
        """This element and all below it, in the order of the document."""
        pending = [self]
        while pending:
            element = pending.pop()
            yield element
            pending.extend(reversed(element.children))


def parse(content: bytes) -> Element:
    """The root of a document. Raises Unreadable, with the line, for anything that is not plain, bounded XML."""
    if len(content) > LARGEST_BYTES:
        raise Unreadable(f"the file has more than {LARGEST_BYTES} bytes")
    builder = _Builder()
    try:
        builder.parser.Parse(content, True)
    except expat.ExpatError as error:
        raise Unreadable(f"this is no XML: {expat.ErrorString(error.code)}", error.lineno) from None
    except (UnicodeError, ValueError, LookupError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable("the file says that it has an encoding which is not known") from None
    assert builder.root is not None
    return builder.root


class _Builder:
    """Collects what expat tells."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        """The pieces of text of each open element: joined once, for there may be very many."""
        self._count = 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.ordered_attributes = True
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._doctype
        self.parser.ExternalEntityRefHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters

    def _doctype(self, *_: object) -> int:
        raise Unreadable("the file has a document type or entities, which are not read", self.parser.CurrentLineNumber)

    def _start(self, name: str, attributes: list[str]) -> None:
        line = self.parser.CurrentLineNumber
        self._count += 1
        if self._count > MOST_ELEMENTS:
            raise Unreadable(f"the file has more than {MOST_ELEMENTS} elements", line)
        if len(self._open) >= DEEPEST:
            raise Unreadable(f"elements are nested more than {DEEPEST} levels deep", line)
        if len(attributes) > 2 * MOST_ATTRIBUTES:
            raise Unreadable(f"an element has more than {MOST_ATTRIBUTES} attributes", line)
        if any(len(value) > LONGEST_ATTRIBUTE for value in attributes[1::2]):
            raise Unreadable(f"an attribute has more than {LONGEST_ATTRIBUTE} characters", line)
        pairs = zip(attributes[::2], attributes[1::2], strict=True)
        parent = self._open[-1] if self._open else None
        element = Element(_split(name), {_split(key): value for key, value in pairs}, line, parent)
        if parent is None:
            self.root = element
        else:
            parent.children.append(element)
        self._open.append(element)
        self._texts.append([])

    def _end(self, _: str) -> None:
        self._open.pop().text = "".join(self._texts.pop())

    def _characters(self, text: str) -> None:
        self._texts[-1].append(text)


def _split(name: str) -> Name:
    namespace, _, local = name.rpartition(" ")
    return namespace, local
