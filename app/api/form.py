"""multipart/form-data as deployments and files bring it: split at the boundary, nothing decoded or nested."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from app.api.problems import Problem

MOST_PARTS: Final = 100
LONGEST_HEAD: Final = 4096
LONGEST_NAME: Final = 255

_BOUNDARY: Final = re.compile(r"""\bboundary=(?:"([^"]{1,70})"|([0-9A-Za-z'()+_,./:=?-]{1,70}))(?:\s*;|\s*$)""", re.I)
_SAID: Final = re.compile(rb';\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))')
_ENCODED: Final = re.compile(rb"utf-8'[^']*'(.+)", re.I)
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
    disposition = next((line for line in lines if line.lower().startswith(b"content-disposition:")), b"")
    said = {one[1].lower(): one[3] if one[2] is None else one[2] for one in _SAID.finditer(disposition)}
    types = (found.group(1) for line in lines if (found := _TYPE.fullmatch(line)))
    return Part(
        _decoded(said.get(b"name", b"")),
        _file_name(said),
        next((media_type.decode("latin-1").strip() for media_type in types), None),
        content,
    )


def _decoded(raw: bytes) -> str:
    try:
        return re.sub(r"\\(.)", r"\1", raw.decode())
    except UnicodeDecodeError:
        raise Problem(422, "a name in the form is not UTF-8") from None


def _file_name(said: Mapping[bytes, bytes]) -> str | None:
    """The last part of the name, whatever path a client sends with it."""
    encoded = _ENCODED.fullmatch(said.get(b"filename*", b""))
    raw = said.get(b"filename") if encoded is None else unquote_to_bytes(encoded[1])
    if raw is None:
        return None
    name = re.split(r"[/\\]", _decoded(raw))[-1].strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise Problem(422, f"the name of a file must be of 1 to {LONGEST_NAME} printable characters")
    return name
