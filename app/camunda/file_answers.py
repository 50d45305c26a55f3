"""Contents of variables as they are: Bytes at once, Files in parts, so that no server holds one whole."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import orjson
from starlette.responses import Response, StreamingResponse

from app.api.database import Database
from app.camunda.errors import CamundaError, invalid
from app.camunda.route import CamundaCall

PART_BYTES: Final = 1 << 20

_MEDIA_TYPE: Final = re.compile(r"[\w.+*!#$&^-]+/[\w.+*!#$&^-]+( *; *[\w.-]+=[\w.\"+-]+)*", re.ASCII)
_ENCODING: Final = re.compile(r"[\w.:+-]+", re.ASCII)


async def content_of(call: CamundaCall, name: str, json_text: str, type_: str | None) -> Response:
    """The content of a variable of type Bytes or File; 400 for one of another type."""
    if type_ == "Bytes":
        text = orjson.loads(json_text)
        return Response(base64.b64decode(text or ""), media_type="application/octet-stream")
    if type_ != "File":
        raise invalid(f"Value of variable {name} is not a binary value")
    value = orjson.loads(json_text)
    file_id = value.get("file")
    rows = await call.parts.database.rows("read_file", file_id=file_id, most=PART_BYTES)
    if not rows:
        raise CamundaError(404, "InvalidRequestException", f"the content of variable {name} is gone")
    length = int(rows[0].length)
    headers = {**_headers(value), "Content-Length": str(length)}
    return StreamingResponse(_parts(call.parts.database, file_id, bytes(rows[0].part), length), headers=headers)


async def _parts(database: Database, file_id: str, part: bytes, length: int) -> AsyncIterator[bytes]:
    sent = 0
    while True:
        yield part
        sent += len(part)
        if sent >= length:
            return
        row = await database.one("read_file", file_id=file_id, first=sent, most=PART_BYTES)
        part = bytes(row.part)


def _headers(value: Mapping[str, Any]) -> dict[str, str]:
    """What a client said of its file, as far as a header can say it. A browser saves it, and runs it never."""
    type_, encoding, name = value.get("mimetype") or "", value.get("encoding") or "", str(value.get("filename"))
    media_type = type_ if _MEDIA_TYPE.fullmatch(type_) else "application/octet-stream"
    if _ENCODING.fullmatch(encoding):
        media_type += f"; charset={encoding}"
    return {"Content-Type": media_type, **saved_as(name)}


def saved_as(name: str) -> dict[str, str]:
    """Headers of a download that has this name, whatever is in it."""
    plain = re.sub(r"[^\w .()+,=@~-]", "_", name, flags=re.ASCII)
    return {
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}",
        "X-Content-Type-Options": "nosniff",
    }
