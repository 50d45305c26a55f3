"""multipart/form-data as deployments and files bring it: split at the boundary, nothing decoded or nested."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from app.api.problems import Problem

MOST_PARTS: Final = 100
LONGEST_HEAD: Final = 4096
LONGEST_NAME: Final = 255

_BOUNDARY: Final = re.compile(r"""\bboundary=(?:"([^"]{1,70})"|([0-9A-Za-z'()+_,./:=?-]{1,70}))(?:\s*;|\s*$)""", re.I)
_TEXT: Final = rb'\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))'
_FIELD: Final = re.compile(rb"(?:^|[;\s])name" + _TEXT, re.I)
_FILE_NAME: Final = re.compile(rb"(?:^|[;\s])filename" + _TEXT, re.I)
_ENCODED_NAME: Final = re.compile(rb"(?:^|[;\s])filename\*\s*=\s*\"?utf-8'[^']*'([^\s;\"]+)", re.I)
_TYPE: Final = re.compile(rb"content-type:\s*([^\s].*)", re.I)


@dataclass(frozen=True, slots=True)
class File:
    """A part with a file name."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Part:
    """Any part: `field` is its name in the form, `file_name` what a client says of a file, without its folders."""

    field: str
    file_name: str | None
    media_type: str | None
    content: bytes

    @property
    def text(self) -> str:
        """The content of a text field."""
        try:
            return self.content.decode()
        except UnicodeDecodeError:
            raise Problem(422, f"{self.field} is not UTF-8") from None


def read_form(content_type: str, body: bytes) -> list[File]:
    """The files of a form in their order. 400 for what is no such form; 422 for a part that is no file."""
    return [_file(part) for part in read_parts(content_type, body)]


def read_parts(content_type: str, body: bytes) -> list[Part]:
    """The parts of a form, texts and files. 400 for what is no such form; 422 for a name that cannot be."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise Problem(400, "the Content-Type names no boundary")
    fence = b"--" + (found.group(1) or found.group(2)).encode("latin-1", "replace")
    # A fence begins a line; what is before the first and after the last is nobody's.
    first, *parts = (b"\r\n" + body).split(b"\r\n" + fence, MOST_PARTS + 2)
    if len(parts) > MOST_PARTS + 1:
        raise Problem(422, f"a form has at most {MOST_PARTS} parts")
    if not parts or first.strip() or not parts[-1].startswith(b"--"):
        raise Problem(400, "not a whole multipart form: its last boundary is missing")
    return [_part(part) for part in parts[:-1]]


def _file(part: Part) -> File:
    if part.file_name is None:
        raise Problem(422, "a part of the form is no file; options belong into the address")
    return File(part.file_name, part.content)


def _part(part: bytes) -> Part:
    head, gap, content = part.partition(b"\r\n\r\n")
    if not gap or len(head) > LONGEST_HEAD:
        raise Problem(400, "a part of the form has no end of its headers")
    lines = head.split(b"\r\n")
    said = next((line[20:] for line in lines if line.lower().startswith(b"content-disposition:")), b"")
    types = (found.group(1) for line in lines if (found := _TYPE.fullmatch(line)))
    return Part(
        _decoded(_value(_FIELD.search(said)) or b""),
        _file_name(said),
        next((media_type.decode("latin-1").strip() for media_type in types), None),
        content,
    )


def _value(found: re.Match[bytes] | None) -> bytes | None:
    return None if found is None else found.group(2) if found.group(1) is None else found.group(1)


def _decoded(raw: bytes) -> str:
    try:
        return re.sub(r"\\(.)", r"\1", raw.decode())
    except UnicodeDecodeError:
        raise Problem(422, "a name in the form is not UTF-8") from None


def _file_name(said: bytes) -> str | None:
    """The last part of the name, whatever path a client sends with it."""
    encoded = _ENCODED_NAME.search(said)
    raw = _value(_FILE_NAME.search(said)) if encoded is None else unquote_to_bytes(encoded.group(1))
    if raw is None:
        return None
    name = re.split(r"[/\\]", _decoded(raw))[-1].strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise Problem(422, f"the name of a file must be of 1 to {LONGEST_NAME} printable characters")
    return name
