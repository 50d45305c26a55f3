"""The smaller groups of commands."""

import hashlib

import pytest
from sqlalchemy import Connection, text

from db import call
from tests.cli.conftest import Celeriac

KEY_OPTIONS = ["--name", "ci", "--verbs", "work,read", "--task-types", "media.*,mail"]


def test_a_type_is_registered_and_keeps_what_is_not_said(celeriac: Celeriac) -> None:
    celeriac("types", "set", "mail", "--lease-ms", "5000", "--backoff-jitter", "0.5")
    changed = celeriac("types", "set", "mail", "--retries", "9", "--json").json
    assert (changed["lease_ms"], changed["retries"], changed["backoff_jitter"]) == (5000, 9, 0.5)
    assert celeriac("types", "list", "--json").json["task_types"] == [changed]
    assert "mail" in celeriac("types", "list").out


def test_a_type_can_be_delivered_to_a_celery_queue(celeriac: Celeriac) -> None:
    changed = celeriac("types", "set", "mail", "--delivery", "celery", "--queue", "fast", "--json").json
    assert (changed["delivery"], changed["queue"]) == ("celery", "fast")


def test_limits_of_a_type_are_set_and_taken_away(celeriac: Celeriac) -> None:
    limits = ("--concurrency", "3", "--rate-tasks", "100", "--rate-ms", "1000")
    changed = celeriac("types", "set", "mail", *limits, "--json").json
    assert (changed["concurrency"], changed["rate_tasks"], changed["rate_ms"]) == (3, 100, 1000)
    assert celeriac("types", "set", "mail", "--retries", "9", "--json").json["concurrency"] == 3
    changed = celeriac("types", "set", "mail", "--concurrency", "0", "--rate-tasks", "0", "--json").json
    assert (changed["concurrency"], changed["rate_tasks"], changed["rate_ms"]) == (None, None, None)


def test_versions_that_nobody_runs_are_listed(celeriac: Celeriac, conn: Connection) -> None:
    assert "every version" in celeriac("types", "stuck").err
    for version in (1, 2):
        call.one(conn, "enqueue_tasks", tasks=call.json_list([{"task_type": "mail", "version": version}]))
    call.one(conn, "register_worker", worker_id="w1", kind="fleet", task_types=["mail"], versions={"mail": [2]})
    (stuck,) = celeriac("types", "stuck", "--json").json["stuck_versions"]
    assert (stuck["task_type"], stuck["version"], stuck["open_tasks"], stuck["waiting_tasks"]) == ("mail", 1, 1, 0)
    assert "mail" in celeriac("types", "stuck").out


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--lease-ms", "0"], "lease_ms"),
        (["--backoff-factor", "0.5"], "backoff_factor"),
        (["--concurrency", "10001"], "concurrency"),
        (["--rate-tasks", "5"], "rate_ms"),
    ],
)
def test_a_type_out_of_range_is_refused_with_the_field(celeriac: Celeriac, arguments: list[str], field: str) -> None:
    refused = celeriac("types", "set", "mail", *arguments)
    assert refused.code == 1
    assert field in refused.err
    assert celeriac("types", "list", "--json").json == {"task_types": []}


def test_a_new_key_opens_what_it_says_and_is_stored_as_a_hash(celeriac: Celeriac, conn: Connection) -> None:
    made = celeriac("keys", "create", *KEY_OPTIONS, "--expires-at", "2999-01-01T00:00:00Z", "--json").json
    assert made["key"].startswith("clrc_")
    found = call.one(conn, "find_api_key", key_hash=hashlib.sha256(made["key"].encode()).digest())
    assert (str(found.key_id), found.principal) == (made["key_id"], "ci")
    assert (sorted(found.verbs), found.task_types) == (["read", "work"], ["media.*", "mail"])
    assert found.expires_at.year == 2999


def test_a_new_key_is_alone_on_stdout(celeriac: Celeriac) -> None:
    made = celeriac("keys", "create", *KEY_OPTIONS)
    assert made.out.count("\n") == 1
    assert made.out.startswith("clrc_")


def test_a_list_of_keys_has_no_key_in_it(celeriac: Celeriac) -> None:
    made = celeriac("keys", "create", *KEY_OPTIONS, "--json").json
    listed = celeriac("keys", "list", "--json")
    assert [key["key_id"] for key in listed.json["keys"]] == [made["key_id"]]
    digest = hashlib.sha256(made["key"].encode()).hexdigest()
    assert made["key"] not in listed.out
    assert digest not in listed.out


def test_a_revoked_key_is_listed_as_revoked(celeriac: Celeriac) -> None:
    key_id = celeriac("keys", "create", *KEY_OPTIONS, "--json").json["key_id"]
    assert celeriac("keys", "revoke", key_id).code == 2  # nobody is there to ask
    assert celeriac("keys", "revoke", key_id, "--yes", "--json").json["key_id"] == key_id
    assert celeriac("keys", "list", "--json").json["keys"][0]["revoked_at"] is not None


def test_a_key_with_a_verb_that_does_not_exist_is_refused(celeriac: Celeriac) -> None:
    refused = celeriac("keys", "create", "--name", "ci", "--verbs", "fly", "--task-types", "*")
    assert refused.code == 1
    assert "verbs" in refused.err
    assert celeriac("keys", "list", "--json").json == {"keys": []}


def test_registered_workers_are_listed(celeriac: Celeriac, conn: Connection) -> None:
    call.one(conn, "register_worker", worker_id="w1", kind="external", task_types=["mail"], versions={"mail": [1]})
    (worker,) = celeriac("workers", "list", "--json").json["workers"]
    assert (worker["worker_id"], worker["live"], worker["versions"]) == ("w1", True, {"mail": [1]})
    assert "w1" in celeriac("workers", "list").out


def park(conn: Connection, key: str) -> None:
    parked = """
        insert into celeriac.outbox (channel, key, payload, due_at, attempts, created_at, parked_at, error)
        values ('ring', :key, '{"task_type": "mail"}', celeriac.now(), 10, celeriac.now(), celeriac.now(), 'too long')
    """
    conn.execute(text(parked), {"key": key})


def test_parked_rows_are_listed_and_sent_again(celeriac: Celeriac, conn: Connection) -> None:
    park(conn, "fast")
    listed = celeriac("outbox", "list", "--json").json
    assert [(row["channel"], row["pending"], row["parked"]) for row in listed["channels"]] == [("ring", 0, 1)]
    assert [(row["key"], row["error"]) for row in listed["parked"]] == [("fast", "too long")]
    assert "too long" in celeriac("outbox", "list").out
    assert celeriac("outbox", "resend").code == 2
    assert celeriac("outbox", "resend", "--yes", "--json").json == {"resent": 1}
    assert celeriac("outbox", "list", "--json").json["parked"] == []


def test_resend_takes_no_more_rows_than_it_is_told(celeriac: Celeriac, conn: Connection) -> None:
    for number in range(3):
        park(conn, f"queue {number}")
    assert celeriac("outbox", "resend", "--max-rows", "2", "--yes", "--json").json == {"resent": 2}
