"""What fetchAndLock asks for: topics with their filters, and the claim that answers it, variables and all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import orjson
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.api import strict_json
from app.api.door import Call
from app.api.fields import LONGEST_DELAY_MS, MOST_TASKS
from app.api.hub import Place
from app.camunda.errors import ENGINE, CamundaError, invalid
from app.camunda.external_task_rows import DESCRIBE, properties_of, shown_locked
from app.camunda.identifiers import definition_uuid
from app.camunda.listing import pattern
from app.camunda.sent import Sent, demand_few
from app.camunda.values import show
from db import call as authority
from db.call import Json

PARTY: Final = "camunda"
"""Polls of this face, which have a limit of their own."""
LONGEST_WAIT_MS: Final = 1_800_000
LARGEST_ANSWER: Final = 4 << 20
"""Characters of variables and error details in one answer. Its first task comes whatever it has."""
PORTION: Final = 64
"""Tasks whose variables are read at once: at most about as many MiB."""
_EACH: Final = text("select key, value from jsonb_each(cast(:variables as jsonb))")


@dataclass(frozen=True)
class Topic:
    """One topic that is asked for. `filters`: what SQL looks at beside its name; None when nothing can match them."""

    name: str
    lock_ms: int
    variables: tuple[str, ...] | None
    local: bool
    deserialize: bool
    properties: bool
    filters: Mapping[str, Any] | None

    @property
    def kind(self) -> tuple[tuple[str, ...] | None, bool]:
        return self.variables, self.local


@dataclass(frozen=True)
class Locked:
    """A task under a lease, and the entry of the answer that says so."""

    task_id: UUID
    task_type: str
    fencing_token: int
    shown: Mapping[str, Any]


@dataclass(frozen=True)
class CamundaWanted:
    """What a poll at /engine-rest asks for: see Wanted."""

    worker_id: str
    topics: Mapping[str, Topic]
    max_tasks: int
    sorting: str | None
    by_priority: bool
    wait_seconds: float
    task_types: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        served = () if self.max_tasks == 0 else (t.name for t in self.topics.values() if t.filters is not None)
        object.__setattr__(self, "task_types", tuple(served))

    @property
    def place(self) -> Place:
        """Two polls with the same filters are suited by the same tasks."""
        picky = any(self.topics[name].filters for name in self.task_types)
        kind: Hashable = strict_json.dumps([[name, self.topics[name].filters] for name in self.task_types])
        return Place(self.task_types, self.max_tasks, kind if picky else self.task_types, picky, PARTY)

    async def claim(self, call: Call, connection: AsyncConnection) -> Sequence[Locked]:
        """Locks and reads in one transaction, so that no task is locked whose answer cannot be written."""
        if not self.task_types:
            return ()
        await connection.execution_options(isolation_level="READ COMMITTED")
        most = self.max_tasks
        while True:
            with authority.refusals():
                async with connection.begin() as transaction:
                    leased = await self._leased(call, connection, most)
                    described = await self._described(call, connection, leased)
                    if len(described) == len(leased):
                        return described
                    # What does not fit is as if it had never been locked. That is rare: the authority knows sizes, but
                    # for what has grown since a task was made.
                    await transaction.rollback()
            most = len(described)

    async def _leased(self, call: Call, connection: AsyncConnection, most: int) -> Sequence[Row[Any]]:
        return await authority.arows(
            connection,
            "fetch_external_tasks",
            worker_id=self.worker_id,
            topics=Json(strict_json.dumps([_asked(self.topics[name]) for name in self.task_types])),
            max_tasks=most,
            sorting=self.sorting,
            use_priority=self.by_priority,
            on_loss=call.parts.settings.camunda_lost_leases,
            **call.rights,
        )

    async def _described(self, call: Call, connection: AsyncConnection, leased: Sequence[Row[Any]]) -> list[Locked]:
        """In the order in which they were taken; the first of them that fit into an answer."""
        described: list[Locked] = []
        room = LARGEST_ANSWER
        for first in range(0, len(leased), PORTION):
            for one, size in await self._portion(call, connection, leased[first : first + PORTION]):
                room -= size
                if room < 0 and described:
                    return described
                described.append(one)
        return described

    async def _portion(
        self, call: Call, connection: AsyncConnection, leased: Sequence[Row[Any]]
    ) -> list[tuple[Locked, int]]:
        """Some of them, each with the characters of what it brings."""
        ids = [one.task_id for one in leased]
        rows = {row.id: row for row in await authority.arows(connection, DESCRIBE, task_ids=ids)}
        sizes = Counter({row.id: len(row.error_details or "") for row in rows.values()})
        variables = await self._variables(connection, leased, sizes)
        properties = await self._properties(connection, list(rows.values()))
        return [
            (
                Locked(
                    one.task_id,
                    one.task_type,
                    one.fencing_token,
                    shown_locked(
                        row := rows[one.task_id],
                        call.parts.settings,
                        variables[one.task_id],
                        properties.get((row.definition_id, row.node), {}),
                    ),
                ),
                sizes[one.task_id],
            )
            for one in leased
        ]

    async def _variables(
        self, connection: AsyncConnection, leased: Sequence[Row[Any]], sizes: Counter[UUID]
    ) -> Mapping[UUID, dict[str, Any]]:
        """Of each task what its topic asks for. Topics that ask for the same are read together. Adds to `sizes`."""
        asked: dict[Any, list[Row[Any]]] = defaultdict(list)
        for one in leased:
            asked[self.topics[one.task_type].kind].append(one)
        found: dict[UUID, dict[str, Any]] = defaultdict(dict)
        for (names, local), tasks in asked.items():
            if names == ():
                continue
            task_of = {one.token_id: one for one in tasks if one.token_id is not None}
            known = None if names is None else list(names)
            for row in await authority.arows(
                connection, "visible_variables", token_uids=list(task_of), names=known, local_only=local
            ):
                task = task_of[row.token_uid]
                deserialize = self.topics[task.task_type].deserialize
                found[task.task_id][row.name] = show(row.value, row.type, row.info, deserialize)
                sizes[task.task_id] += len(row.value)
            for one in tasks:
                if one.token_id is None:
                    found[one.task_id] = await self._own_variables(connection, one)
        return found

    async def _own_variables(self, connection: AsyncConnection, task: Row[Any]) -> dict[str, Any]:
        """Of a task that belongs to no process: what it was enqueued with."""
        topic = self.topics[task.task_type]
        rows = await connection.execute(_EACH, {"variables": task.variables})
        return {
            row.key: show(row.value, None, None, topic.deserialize)
            for row in rows
            if topic.variables is None or row.key in topic.variables
        }

    async def _properties(self, connection: AsyncConnection, rows: Sequence[Row[Any]]) -> Mapping[Any, Any]:
        """(definition, node) -> extension properties, of the topics that want them."""
        asked = [row for row in rows if self.topics[row.topic].properties]
        if not asked:
            return {}
        found = await connection.execute(*properties_of(asked))
        return {(row.definition_id, row.node): orjson.Fragment(row.properties) for row in found}


def read_wanted(sent: Sent) -> CamundaWanted:
    """Of the body of a fetchAndLock. What Camunda's engine refuses there is a 500 of its own types."""
    wait_ms = sent.integer("asyncResponseTimeout", 0) or 0
    if wait_ms > LONGEST_WAIT_MS:
        raise invalid(
            f"The asynchronous response timeout cannot be set to a value greater than {LONGEST_WAIT_MS} milliseconds"
        )
    by_priority, orders = sent.boolean("usePriority"), [_order(one) for one in sent.list_of_sent("sorting")]
    max_tasks = sent.integer("maxTasks", 0) or 0
    topics = [_read_topic(one) for one in sent.list_of_sent("topics")]
    worker_id = worker_of(sent)
    if max_tasks < 0:
        raise CamundaError(500, "ProcessEngineException", "maxResults is not greater than or equal to 0", code=ENGINE)
    return CamundaWanted(
        worker_id=worker_id,
        topics={topic.name: topic for topic in topics},
        max_tasks=min(max_tasks, MOST_TASKS),
        sorting=orders[0] if orders else None,
        by_priority=by_priority,
        wait_seconds=wait_ms / 1000,
    )


def worker_of(sent: Sent) -> str:
    """The workerId, which everybody who works must say; a number is a name as well."""
    return required(sent, "workerId")


def required(sent: Sent, name: str) -> str:
    """A name without which Camunda's engine does not begin: 500, as it says."""
    given = sent.name(name)
    if given is None:
        raise CamundaError(500, "NullValueException", f"{name} is null", code=ENGINE)
    return given


def _order(sorting: Sent) -> str:
    by, order = sorting.text("sortBy") or "null", sorting.text("sortOrder") or "null"
    if by != "createTime":
        raise invalid(f"Cannot set query sortBy parameter to value {by}")
    if order not in ("asc", "desc"):
        raise invalid(f"Cannot set query sortOrder parameter to value {order}")
    return order


def _read_topic(sent: Sent) -> Topic:
    name, lock_ms = required(sent, "topicName"), sent.integer("lockDuration", 0, LONGEST_DELAY_MS) or 0
    if lock_ms <= 0:
        raise CamundaError(500, "ProcessEngineException", "lockTime is not greater than 0", code=ENGINE)
    variables = sent.names("variables")
    return Topic(
        name=name,
        lock_ms=lock_ms,
        variables=None if variables is None else tuple(variables),
        local=sent.boolean("localVariables"),
        deserialize=sent.boolean("deserializeValues"),
        properties=sent.boolean("includeExtensionProperties"),
        filters=_read_filters(sent),
    )


def _read_filters(sent: Sent) -> Mapping[str, Any] | None:
    """As fetch_external_tasks takes them. None: nothing can match, such as what belongs to a tenant."""
    if sent.names("tenantIdIn"):
        return None
    variables, tag = sent.mapping("processVariables"), sent.text("processDefinitionVersionTag")
    demand_few("processVariables", variables)
    filters: dict[str, Any] = {
        "business_key": sent.text("businessKey"),
        "definition_ids": _one_or_some(sent, "processDefinitionId"),
        "process_keys": _one_or_some(sent, "processDefinitionKey"),
        "version_tag": None if tag is None else pattern(tag),
        "process_variables": [[name, *_plain(value)] for name, value in variables.items()] or None,
    }
    if filters["definition_ids"] is not None:
        known = map(definition_uuid, filters["definition_ids"])
        filters["definition_ids"] = [one for one in known if one is not None]
    if [] in (filters["definition_ids"], filters["process_keys"]):
        return None
    return {name: value for name, value in filters.items() if value is not None}


def _one_or_some(sent: Sent, name: str) -> list[str] | None:
    """`name` and `nameIn` together: one that is in both."""
    one, some = sent.text(name), sent.names(f"{name}In") or None
    if one is None:
        return some
    return [one] if some is None or one in some else []


def _plain(value: Any) -> tuple[str, Any]:
    """The type that Camunda infers from a JSON value, and the value: both must be those of the variable."""
    if value is None:
        return "Null", None
    if isinstance(value, bool):
        return "Boolean", value
    if isinstance(value, int):
        return "Integer" if -(1 << 31) <= value < 1 << 31 else "Long", value
    if isinstance(value, float):
        return "Double", value
    if isinstance(value, str):
        return "String", value
    raise CamundaError(
        500, "ProcessEngineException", "Object values cannot be used to query for process variables", code=ENGINE
    )


def _asked(topic: Topic) -> dict[str, Any]:
    return {"topic": topic.name, "lock_ms": topic.lock_ms, **(topic.filters or {})}
