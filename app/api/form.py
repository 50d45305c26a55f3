"""multipart/form-data as deployments bring it: files only, split at the boundary, nothing decoded or nested."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from app.api.problems import Problem

MOST_PARTS: Final = 100
LONGEST_HEAD: Final = 4096
LONGEST_NAME: Final = 255

_BOUNDARY: Final = re.compile(r"""\bboundary=(?:"([^"]{1,70})"|([0-9A-Za-z'()+_,./:=?-]{1,70}))(?:\s*;|\s*$)""", re.I)
_FILE_NAME: Final = re.compile(rb'\bfilename="((?:[^"\\]|\\.)*)"', re.I)


@dataclass(frozen=True, slots=True)
class File:
    """A part with a file name."""

    name: str
    content: bytes


def read_form(content_type: str, body: bytes) -> list[File]:
    """The files of a form in their order. 400 for what is no such form; 422 for a part that is no file."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise Problem(400, "the Content-Type names no boundary")
    fence = b"--" + (found.group(1) or found.group(2)).encode("latin-1", "replace")
    # A fence begins a line; what is before the first and after the last is nobody's.
    first, *parts = (b"\r\n" + body).split(b"\r\n" + fence, MOST_PARTS + 2)
    if len(parts) > MOST_PARTS + 1:
        raise Problem(422, f"a deployment has at most {MOST_PARTS} files")
    if not parts or first.strip() or not parts[-1].startswith(b"--"):
        raise Problem(400, "not a whole multipart form: its last boundary is missing")
    return [_file(part) for part in parts[:-1]]


def _file(part: bytes) -> File:
    head, gap, content = part.partition(b"\r\n\r\n")
    if not gap or len(head) > LONGEST_HEAD:
        raise Problem(400, "a part of the form has no end of its headers")
    name = next(
        (
            found.group(1)
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-disposition:") and (found := _FILE_NAME.search(line))
        ),
        None,
    )
    if name is None:
        raise Problem(422, "a part of the form is no file; options belong into the address")
    return File(_shown(name), content)


def _shown(raw: bytes) -> str:
    """The last part of the name, whatever path a client sends with it."""
    try:
        text = re.sub(r"\\(.)", r"\1", raw.decode())
    except UnicodeDecodeError:
        raise Problem(422, "the name of a file is not UTF-8") from None
    name = re.split(r"[/\\]", text)[-1].strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise Problem(422, f"the name of a file must be of 1 to {LONGEST_NAME} printable characters")
    return name
