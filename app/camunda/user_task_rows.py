"""User tasks as a list: what they can be asked for by, and how they are shown."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, TableClause, Text, and_, func, literal, or_, select
from sqlalchemy.dialects.postgresql import ARRAY

from app.camunda.errors import invalid
from app.camunda.identifiers import definition_id, definition_uuid
from app.camunda.listing import (
    AS_DEFINITION,
    AS_ID,
    AS_TEXT,
    TENANTS,
    Filter,
    Kind,
    Listing,
    equal,
    flag,
    like,
    moment,
    nothing,
    number,
    one_of,
    pattern,
)
from app.camunda.related import either, unknown
from app.camunda.sent import Sent
from app.camunda.variable_filters import variables

AS_ACTIVITY: Final = Kind(AS_ID.type, lambda given: AS_ID.value(definition_uuid(given) or ""))
"""`element:uuid`; the UUID is that of the token."""


def _candidate(narrow: Filter) -> Filter:
    """Who may claim a task. Those that somebody has are left out, unless includeAssignedTasks says otherwise."""

    def unclaimed(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        condition = narrow(asked, view)
        if condition is None or asked.boolean("includeAssignedTasks"):
            return condition
        return and_(condition, view.c.assignee.is_(None))

    return unclaimed


def _user(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    user = asked.text("candidateUser")
    return None if user is None else _holds(view.c.candidate_users, user)


def _group(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    group = asked.text("candidateGroup")
    return None if group is None else _holds(view.c.candidate_groups, group)


def _groups(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    names = asked.names("candidateGroups")
    return None if not names else view.c.candidate_groups.op("?|", is_comparison=True)(literal(names, ARRAY(Text)))


def _group_like(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    wanted = asked.text("candidateGroupLike")
    if wanted is None:
        return None
    name = func.jsonb_array_elements_text(view.c.candidate_groups).column_valued("candidate")
    return select(name).where(name.like(pattern(wanted))).exists()


def _involved(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    user = asked.text("involvedUser")
    if user is None:
        return None
    return or_(view.c.assignee == user, view.c.owner == user, _holds(view.c.candidate_users, user))


def _follow_up_or_none(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    before = moment("followUpBeforeOrNotExistent", "follow_up_at", operator.lt)(asked, view)
    return None if before is None else or_(view.c.follow_up_at.is_(None), before)


def _holds(names: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    return names.op("?", is_comparison=True)(literal(name))


def _no_expressions(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    for name, value in asked.values.items():
        if value and name.endswith("Expression"):
            raise invalid(f"{name[:64]}: expressions are not known here")
    return None


FILTERS: Final[tuple[Filter, ...]] = (
    equal("taskId", "token_id", AS_ID),
    one_of("taskIdIn", "token_id", AS_ID),
    equal("processInstanceId", "instance_id", AS_ID),
    one_of("processInstanceIdIn", "instance_id", AS_ID),
    equal("processInstanceBusinessKey", "business_key"),
    one_of("processInstanceBusinessKeyIn", "business_key"),
    like("processInstanceBusinessKeyLike", "business_key"),
    equal("processDefinitionId", "definition_id", AS_DEFINITION),
    equal("processDefinitionKey", "process_key"),
    one_of("processDefinitionKeyIn", "process_key"),
    equal("processDefinitionName", "process_name"),
    like("processDefinitionNameLike", "process_name"),
    equal("executionId", "token_id", AS_ID),
    one_of("activityInstanceIdIn", "token_id", AS_ACTIVITY),
    equal("assignee", "assignee"),
    like("assigneeLike", "assignee"),
    one_of("assigneeIn", "assignee"),
    one_of("assigneeNotIn", "assignee", others=True),
    flag("assigned", "assignee is not null"),
    flag("unassigned", "assignee is null"),
    equal("owner", "owner"),
    _candidate(_user),
    _candidate(_group),
    _candidate(_groups),
    _candidate(_group_like),
    _candidate(flag("withCandidateGroups", "candidate_groups <> '[]'")),
    _candidate(flag("withoutCandidateGroups", "candidate_groups = '[]'")),
    _candidate(flag("withCandidateUsers", "candidate_users <> '[]'")),
    _candidate(flag("withoutCandidateUsers", "candidate_users = '[]'")),
    _involved,
    equal("taskDefinitionKey", "node"),
    one_of("taskDefinitionKeyIn", "node"),
    one_of("taskDefinitionKeyNotIn", "node", others=True),
    like("taskDefinitionKeyLike", "node"),
    equal("name", "name"),
    like("nameLike", "name", folded=True),
    like("nameNotLike", "name", folded=True, others=True),
    one_of("nameNotEqual", "name", AS_TEXT, others=True),
    equal("description", "description"),
    like("descriptionLike", "description", folded=True),
    number("priority", "priority"),
    number("maxPriority", "priority", operator.le),
    number("minPriority", "priority", operator.ge),
    moment("dueDate", "due_at", operator.eq),
    moment("dueAfter", "due_at", operator.gt),
    moment("dueBefore", "due_at", operator.lt),
    flag("withoutDueDate", "due_at is null"),
    moment("followUpDate", "follow_up_at", operator.eq),
    moment("followUpAfter", "follow_up_at", operator.gt),
    moment("followUpBefore", "follow_up_at", operator.lt),
    _follow_up_or_none,
    moment("createdOn", "created_at", operator.eq),
    moment("createdAfter", "created_at", operator.gt),
    moment("createdBefore", "created_at", operator.lt),
    moment("updatedAfter", "changed_at", operator.gt),
    flag("active", "not suspended"),
    flag("suspended", "suspended"),
    variables("processVariables"),
    nothing("parentTaskId", "delegationState", "caseInstanceId", "caseExecutionId", "caseDefinitionId"),
    nothing("caseDefinitionKey", "caseInstanceBusinessKey", "caseInstanceVariables"),
    TENANTS,
    unknown("taskVariables"),
    _no_expressions,
)

USER_TASKS: Final = Listing(
    view="camunda_user_tasks",
    key="token_id",
    columns=(
        "token_id", "instance_id", "node", "created_at", "assignee", "name", "description", "owner", "priority",
        "due_at", "follow_up_at", "form_key", "changed_at", "candidate_users", "candidate_groups", "definition_id",
        "suspended", "process_key", "process_version",
    ),
    hidden=("topics", "business_key", "process_name"),
    filters=(*FILTERS, either(FILTERS)),
    sorts={
        "instanceId": "instance_id", "dueDate": "due_at", "followUpDate": "follow_up_at", "executionId": "token_id",
        "assignee": "assignee", "created": "created_at", "lastUpdated": "changed_at", "description": "description",
        "id": "token_id", "name": "name", "nameCaseInsensitive": "name", "priority": "priority",
        "tenantId": "token_id", "caseInstanceId": "token_id", "caseExecutionId": "token_id",
    },
)  # fmt: skip


def candidates(row: Mapping[str, Any]) -> list[tuple[str | None, str | None]]:
    """Who may claim a task: (user, None) or (None, group)."""
    users, groups = orjson.loads(row["candidate_users"]), orjson.loads(row["candidate_groups"])
    return [*((user, None) for user in users), *((None, group) for group in groups)]


def shown_user_task(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["token_id"],
        "name": row["name"],
        "assignee": row["assignee"],
        "created": row["created_at"],
        "due": row["due_at"],
        "followUp": row["follow_up_at"],
        "lastUpdated": row["changed_at"],
        "delegationState": None,
        "description": row["description"],
        "executionId": row["token_id"],
        "owner": row["owner"],
        "parentTaskId": None,
        "priority": row["priority"],
        "processDefinitionId": definition_id(row["process_key"], row["process_version"], row["definition_id"]),
        "processInstanceId": row["instance_id"],
        "taskDefinitionKey": row["node"],
        "caseExecutionId": None,
        "caseInstanceId": None,
        "caseDefinitionId": None,
        "suspended": row["suspended"],
        "formKey": row["form_key"],
        "camundaFormRef": None,
        "tenantId": None,
        "taskState": "Created" if row["changed_at"] is None else "Updated",
    }
