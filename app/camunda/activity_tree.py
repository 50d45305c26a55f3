"""Where an instance stands, as a tree: the process, its subprocesses, and the activities in which its tokens are.

The execution of an activity is its token; that of the process, the instance. A token at a commit point, or with an
incident on its way, is no activity yet: Camunda calls it a transition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from app.api.database import Database
from app.camunda.elements import PROCESS, activity_type
from app.camunda.graphs import graph_of
from app.camunda.identifiers import activity_instance_id, definition_id
from app.process.graph import Graph

_TOKENS: Final = (
    "select token_id, node, scope_number, phase from celeriac.instance_tokens where instance_id = :id order by number"
)
_SCOPES: Final = (
    "select number, parent, node, host_id from celeriac.instance_scopes where instance_id = :id order by number"
)
_INCIDENTS: Final = (
    "select incident_id, token_id, node from celeriac.camunda_incidents"
    " where instance_id = :id and resolved_at is null order by incident_id"
)


async def activity_tree(database: Database, instance: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of an instance that runs; `instance` is its row."""
    identity = instance["instance_id"]
    tokens = await database.view(_TOKENS, id=identity)
    scopes = await database.view(_SCOPES, id=identity)
    incidents: dict[UUID, list[dict[str, Any]]] = {}
    for row in await database.view(_INCIDENTS, id=identity):
        incidents.setdefault(row.token_id, []).append({"id": row.incident_id, "activityId": row.node})
    tree = _Tree(instance, await graph_of(database, instance["definition_id"]), incidents)
    tree.grow(tokens, scopes)
    return tree.root


class _Tree:
    def __init__(
        self, instance: Mapping[str, Any], graph: Graph, incidents: Mapping[UUID, Sequence[Mapping[str, Any]]]
    ) -> None:
        self._instance = instance["instance_id"]
        self._definition = definition_id(
            instance["process_key"], instance["process_version"], instance["definition_id"]
        )
        self._graph = graph
        self._incidents = incidents
        self.root = {
            **self._place(self._definition, graph.name, PROCESS),
            "id": self._instance,
            "parentActivityInstanceId": None,
            "childActivityInstances": [],
            "childTransitionInstances": [],
            "executionIds": [self._instance],
            **self._trouble(None),
        }

    def grow(self, tokens: Sequence[Any], scopes: Sequence[Any]) -> None:
        hosts = {row.host_id: row.number for row in scopes if row.host_id is not None}
        inside: dict[int | None, dict[str, Any]] = {}
        places = []
        for token in tokens:
            if token.phase in ("ENTERING", "LEAVING"):
                places.append((token, "childTransitionInstances", self._transition(token)))
            else:
                node = self._activity(token)
                places.append((token, "childActivityInstances", node))
                inside[hosts.get(token.token_id)] = node
        parents = {row.number: row.parent for row in scopes}
        for token, children, node in places:
            parent = self._parent(token.scope_number, inside, parents)
            node["parentActivityInstanceId"] = parent["id"]
            parent[children].append(node)

    def _parent(
        self, scope: int | None, inside: Mapping[int | None, dict[str, Any]], parents: Mapping[int, int | None]
    ) -> dict[str, Any]:
        """What a scope is the inside of; of a subprocess that was left, and is being undone, what is around it."""
        while scope is not None:
            if scope in inside:
                return inside[scope]
            scope = parents.get(scope)
        return self.root

    def _activity(self, token: Any) -> dict[str, Any]:
        return {
            **self._named(token.node),
            "id": activity_instance_id(token.node, token.token_id),
            "childActivityInstances": [],
            "childTransitionInstances": [],
            "executionIds": [token.token_id],
            **self._trouble(token.token_id),
        }

    def _transition(self, token: Any) -> dict[str, Any]:
        return {
            **self._named(token.node),
            "id": token.token_id,
            "executionId": token.token_id,
            "targetActivityId": token.node,
            **self._trouble(token.token_id),
        }

    def _named(self, name: str) -> dict[str, Any]:
        node = self._graph.nodes[name]
        return self._place(name, node.name, activity_type(node))

    def _place(self, activity: str, name: str | None, type_: str) -> dict[str, Any]:
        return {
            "activityId": activity,
            "activityName": name,
            "name": name,
            "activityType": type_,
            "processInstanceId": self._instance,
            "processDefinitionId": self._definition,
        }

    def _trouble(self, token: UUID | None) -> dict[str, Any]:
        incidents = [] if token is None else self._incidents.get(token, [])
        return {"incidentIds": [one["id"] for one in incidents], "incidents": incidents}
