"""What is told of one instance beside its row, at most `:most` rows of each; and what is counted for its picture."""

from typing import Final

PARTS: Final = {
    "tokens": (
        "select token_id, node, scope, phase, stuck, undoing, entered_at from celeriac.instance_tokens"
        " where instance_id = cast(:id as uuid) order by number limit :most"
    ),
    "waits": (
        "select token_id, node, kind, name, due_at, timing, fired, opened_at from celeriac.instance_waits"
        " where instance_id = cast(:id as uuid) order by number limit :most"
    ),
    "variables": (
        "select scope, root, name, type, value from celeriac.instance_variables"
        " where instance_id = cast(:id as uuid) order by scope_number, name limit :most"
    ),
    "undos": (
        "select activity, handler, used from celeriac.instance_undos"
        " where instance_id = cast(:id as uuid) order by number limit :most"
    ),
    "open_incidents": (
        "select incident_id, kind, name as node, message, token_id, task_id, created_at from celeriac.incidents"
        " where instance_id = cast(:id as uuid) and resolved_at is null order by incident_id limit :most"
    ),
}
COUNTS: Final = {
    "tokens": (
        "select node, count(*)::integer as number from celeriac.instance_tokens"
        " where instance_id = cast(:id as uuid) group by node"
    ),
    "passed": (
        "select node, count(*)::integer as number from celeriac.instance_timeline"
        " where instance_id = cast(:id as uuid) and what = 'left' group by node"
    ),
    "incidents": (
        "select name as node, count(*)::integer as number from celeriac.incidents"
        " where instance_id = cast(:id as uuid) and resolved_at is null and name is not null group by name"
    ),
}
