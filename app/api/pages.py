"""Lists page by page: what every list takes in its address, and how one page is read and the next one named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Select

from app.api.cursors import read_cursor, write_cursor
from app.api.door import Call
from app.api.fields import Digits

MOST_LISTED: Final = 200


class PageQuery(BaseModel):
    """The size of a page and where it begins; each list adds its filters and its `sort`."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    limit: Annotated[Digits, Field(ge=1, le=MOST_LISTED)] = 50
    cursor: Annotated[str, Field(max_length=100)] | None = None


class SortedQuery(PageQuery):
    """A list that can be read from either end: `-` in front of the name in `sort` means newest first."""

    sort: str

    @property
    def filters(self) -> dict[str, Any]:
        return self.model_dump(exclude={"sort", "limit", "cursor"})


async def page_of(
    call: Call, page: Callable[..., Select[Any]], asked: SortedQuery
) -> tuple[list[dict[str, Any]], str | None]:
    """The rows of the page that is asked for, within the caller's rights, and the cursor of the next one."""
    only_types, filters = call.principal.only_types, asked.filters
    question = (page.__name__, tuple(filters.items()), asked.sort, only_types and tuple(only_types))
    rows = await call.parts.database.view(
        page(
            **filters,
            only_types=only_types,
            newest_first=asked.sort.startswith("-"),
            limit=asked.limit + 1,
            after=None if asked.cursor is None else UUID(bytes=read_cursor(asked.cursor, question)),
        )
    )
    shown = rows[: asked.limit]
    next_cursor = write_cursor(shown[-1][0].bytes, question) if len(rows) > len(shown) else None
    return [dict(row._mapping) for row in shown], next_cursor
