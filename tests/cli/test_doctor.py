"""`celeriac doctor` finds what is wrong: each test breaks one thing and expects that very finding."""

import os
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from app.cli.doctor import examine as examination
from app.cli.doctor import invariants, server
from app.cli.doctor.finding import Severity
from app.dev.ports import free_port
from app.dev.processes import Process, console_command
from app.settings import Settings
from db import call
from tests.app.engine.conftest import flow, model
from tests.app.engine.conftest import task as task_of
from tests.cli.conftest import Celeriac, Enqueue, fail_for_good, fetch
from tests.held_task import fetch_held, new_held
from workers.health import BEAT, MAINTENANCE, leave_sign

UNSAFE_IN_TESTS = "commits_are_kept"  # the test server runs without fsync on purpose, so doctor always finds this


@pytest.fixture
def healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str, redis_url: str, conn: Connection
) -> Settings:
    """An installation as it is when everything runs."""
    monkeypatch.setenv("CELERIAC_STATE_DIR", str(tmp_path))
    settings = Settings(database_url=database_url, redis_url=redis_url, state_dir=str(tmp_path))
    for name in (BEAT, MAINTENANCE):
        leave_sign(settings, name)
    call.one(conn, "maintain_history", older_than_ms=90 * 86_400_000)
    return settings


def findings(celeriac: Celeriac) -> dict[str, dict[str, Any]]:
    """What doctor finds besides the missing fsync, by check."""
    report = celeriac("doctor", "--json").json
    assert report["checks"] > 25
    return {found["check"]: found for found in report["findings"] if found["check"] != UNSAFE_IN_TESTS}


def bend(conn: Connection, sql: str) -> None:
    """Change rows by hand, past constraints and functions."""
    for constraint, table in conn.execute(
        text(
            "select conname, conrelid::regclass::text from pg_constraint c"
            " where connamespace = 'celeriac'::regnamespace and contype = 'c' and coninhcount = 0"
        )
    ).all():
        conn.execute(text(f'alter table {table} drop constraint "{constraint}"'))
    conn.execute(text(sql))


@pytest.mark.usefixtures("healthy")
def test_a_healthy_installation_has_no_findings(celeriac: Celeriac, enqueue: Enqueue, conn: Connection) -> None:
    for number in range(3):
        enqueue(idempotency_key=f"key {number}")
    task = fetch(conn)
    call.one(conn, "complete_task", task_id=task.task_id, worker_id="w1", fencing_token=task.fencing_token)
    fetch(conn)
    enqueue(delay_ms=60_000)
    assert findings(celeriac) == {}


@pytest.mark.usefixtures("healthy")
def test_notes_alone_are_exit_code_0_and_problems_are_4(
    celeriac: Celeriac, enqueue: Enqueue, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue()
    fail_for_good(conn)
    assert celeriac("doctor").code == 4  # fsync
    monkeypatch.setattr(server, "CHECKS", [server.known_version])
    assert celeriac("doctor").code == 0
    text_report = celeriac("doctor").out
    assert "NOTE" in text_report
    assert "redrive" in text_report


@pytest.mark.usefixtures("healthy")
def test_a_server_that_forgets_commits_is_a_problem(celeriac: Celeriac) -> None:
    whats = [found["what"] for found in celeriac("doctor", "--json").json["findings"]]
    assert any("fsync is off" in what for what in whats)


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    ("check", "setting"),
    [("commits_are_kept", "synchronous_commit = off"), ("takes_writes", "default_transaction_read_only = on")],
)
def test_a_dangerous_server_setting_is_found(
    celeriac: Celeriac, conn: Connection, database_url: str, check: str, setting: str
) -> None:
    conn.execute(text(f"alter database {database_url.rsplit('/', 1)[-1]} set {setting}"))
    report = celeriac("doctor", "--json").json
    assert setting.split(" ")[0] in str([found for found in report["findings"] if found["check"] == check])


@pytest.mark.usefixtures("healthy")
def test_pools_larger_than_the_server_allows_are_found(celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERIAC_DATABASE_POOL", "100")
    assert "connections_suffice" in findings(celeriac)


def test_a_database_that_is_down_is_exit_code_3_and_a_finding(
    celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELERIAC_DATABASE_URL", f"postgresql://me:hunter2@127.0.0.1:{free_port()}/celeriac")
    examined = celeriac("doctor", "--json")
    assert examined.code == 3
    assert examined.json["findings"][0]["check"] == "database_answers"
    assert "hunter2" not in examined.out + examined.err


@pytest.mark.usefixtures("healthy")
def test_a_redis_that_is_down_is_exit_code_3_and_a_finding(celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERIAC_REDIS_URL", f"redis://:hunter2@127.0.0.1:{free_port()}/0")
    examined = celeriac("doctor", "--json")
    assert examined.code == 3
    assert examined.json["findings"][0]["check"] == "redis_answers"
    assert "hunter2" not in examined.out + examined.err


@pytest.mark.usefixtures("healthy")
def test_a_broker_of_its_own_that_is_down_is_found(celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERIAC_BROKER_URL", f"redis://127.0.0.1:{free_port()}/0")
    assert "broker_answers" in findings(celeriac)


@pytest.mark.usefixtures("healthy")
def test_without_redis_doctor_notes_that_nothing_is_woken(celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELERIAC_REDIS_URL")
    assert findings(celeriac)["redis_answers"]["severity"] == Severity.NOTE


def test_chores_that_nobody_does_are_found(celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CELERIAC_STATE_DIR", str(tmp_path))
    found = findings(celeriac)
    assert found["maintenance_lives"]["severity"] == Severity.PROBLEM
    assert found["beat_lives"]["severity"] == Severity.NOTE


def test_a_maintenance_worker_of_another_machine_is_heard_over_the_broker(
    celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    env = os.environ | {"CELERIAC_STATE_DIR": str(tmp_path / "there")}
    with Process(
        [console_command("celeriac"), "maintenance"], tmp_path / "log", name="maintenance", env=env
    ) as process:
        process.wait_for_output("ready.")
        monkeypatch.setenv("CELERIAC_STATE_DIR", str(tmp_path / "here"))
        found = findings(celeriac)
    assert "maintenance_lives" not in found
    assert "beat_lives" in found


def test_a_database_without_celeriac_is_found(
    celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch, empty_database_url: str
) -> None:
    monkeypatch.setenv("CELERIAC_DATABASE_URL", empty_database_url)
    found = {entry["check"]: entry for entry in celeriac("doctor", "--json").json["findings"]}
    assert "celeriac migrate" in found["is_migrated"]["fix"]


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    ("check", "sql"),
    [
        ("tables_are_current", "update celeriac.revision set version_num = '0000'"),
        ("is_migrated", "update celeriac.installation set code_hash = 'old'"),
    ],
)
def test_another_release_in_the_database_is_found(celeriac: Celeriac, conn: Connection, check: str, sql: str) -> None:
    conn.execute(text(sql))
    assert check in {found["check"] for found in celeriac("doctor", "--json").json["findings"]}


@pytest.mark.usefixtures("healthy")
def test_a_role_that_may_write_a_table_is_found(celeriac: Celeriac, conn: Connection) -> None:
    conn.execute(text("grant update on celeriac.queue to celeriac_fleet"))
    found = findings(celeriac)["roles_hold_no_more"]
    assert (found["where"], found["what"]) == ("celeriac.queue", "celeriac_fleet may UPDATE")


@pytest.mark.usefixtures("healthy")
def test_doctor_says_what_its_role_may_not_look_at(
    celeriac: Celeriac, api_url_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELERIAC_DATABASE_URL", api_url_db)
    found = findings(celeriac)
    assert "open_is_queued" in found["rights_of_doctor"]["what"]
    assert {entry["severity"] for entry in found.values()} == {Severity.NOTE}


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    ("check", "late"),
    [
        (
            "leases_are_expired",
            "lease_expires_at = lease_expires_at - interval '1 h', reap_at = reap_at - interval '1 h'",
        ),
        ("due_is_promoted", "run_at = celeriac.now() - interval '1 h'"),
    ],
)
def test_chores_that_are_late_are_found(
    celeriac: Celeriac, conn: Connection, enqueue: Enqueue, check: str, late: str
) -> None:
    enqueue("mail", delay_ms=60_000)
    enqueue("print")
    fetch(conn, "print")
    bend(conn, f"update celeriac.queue set {late}")
    assert check in findings(celeriac)


@pytest.mark.usefixtures("healthy")
def test_waiting_work_without_a_worker_is_found_until_one_registers(
    celeriac: Celeriac, conn: Connection, enqueue: Enqueue
) -> None:
    enqueue("mail")
    conn.execute(text("update celeriac.queue set run_at = run_at - interval '1 h'"))
    found = findings(celeriac)
    assert "mail" in found["types_have_workers"]["where"]
    assert found["nothing_waits_long"]["severity"] == Severity.NOTE
    call.one(conn, "register_worker", worker_id="w1", kind="external", task_types=["mail"], versions={}, details={})
    assert "types_have_workers" not in findings(celeriac)


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(("parked_at", "words"), [("celeriac.now()", "parked"), ("null", "rows wait")])
def test_outbox_rows_that_do_not_leave_are_found(
    celeriac: Celeriac, conn: Connection, parked_at: str, words: str
) -> None:
    conn.execute(
        text(
            "insert into celeriac.outbox (channel, key, payload, due_at, created_at, parked_at)"
            f" values ('ring', 'fast', '{{}}', celeriac.now() - interval '1 h', celeriac.now(), {parked_at})"
        )
    )
    assert words in findings(celeriac)["outbox_moves"]["what"]


@pytest.mark.usefixtures("healthy")
def test_durable_tasks_that_wait_run_or_are_undone_are_no_findings(celeriac: Celeriac, conn: Connection) -> None:
    call.one(conn, "register_task_type", name="mail", concurrency=1)
    for key in ("a", "a", "b"):
        call.one(conn, "enqueue_tasks", tasks=call.json_list([{"task_type": "mail", "concurrency_key": key}]))
    fetch_held(conn).wait_for("paid")
    undone = fetch_held(conn)
    undone.promise_to_undo(1, "charge")
    undone.fail()
    new_held(conn, "print").begin(1, "charge")
    assert findings(celeriac) == {}


@pytest.mark.usefixtures("healthy")
def test_incidents_are_problems_until_they_are_resolved(celeriac: Celeriac, conn: Connection) -> None:
    incident_id = new_held(conn).meet_other_code()
    operation_id = new_held(conn).lose_track(1, "charge")
    listed = [
        (found["severity"], found["where"], found["fix"])
        for found in celeriac("doctor", "--json").json["findings"]
        if found["check"] == "incidents_are_resolved"
    ]
    assert {(severity, where) for severity, where, _ in listed} == {(Severity.PROBLEM, "task type mail")}
    assert sorted("operations resolve" in fix for _, _, fix in listed) == [False, True]
    call.one(conn, "resolve_incident", incident_id=incident_id, resolution="retry")
    call.one(conn, "resolve_operation", operation_id=operation_id, outcome="NOT_DONE")
    assert "incidents_are_resolved" not in findings(celeriac)


@pytest.mark.usefixtures("healthy")
def test_a_version_that_was_left_behind_is_found_until_a_worker_brings_it(celeriac: Celeriac, conn: Connection) -> None:
    call.rows(conn, "enqueue_tasks", tasks=call.json_list([{"task_type": "mail"}] * 2))
    fetch_held(conn).wait_for("paid")
    conn.execute(text("update celeriac.task set created_at = created_at - interval '1 h'"))
    worker = {"worker_id": "w1", "kind": "fleet", "task_types": ["mail"]}
    call.one(conn, "register_worker", **worker, versions={"mail": [2]})
    found = findings(celeriac)["versions_have_workers"]
    assert (found["severity"], found["where"]) == (Severity.PROBLEM, "task type mail, version 1")
    assert "1 open and 1 waiting" in found["what"]
    call.one(conn, "register_worker", **worker, versions={"mail": [1, 2]})
    assert "versions_have_workers" not in findings(celeriac)


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    ("check", "late"),
    [
        ("timers_fire", "update celeriac.wait set until = celeriac.now() - interval '1 h'"),
        ("schedules_fire", "update celeriac.schedule set next_at = celeriac.now() - interval '1 h'"),
        ("schedules_fire", "update celeriac.schedule set error = 'variables must be an object'"),
    ],
)
def test_times_that_have_come_and_nobody_looked_are_found(
    celeriac: Celeriac, conn: Connection, check: str, late: str
) -> None:
    new_held(conn).wait_for("paid")
    call.one(
        conn,
        "put_schedule",
        name="nightly",
        task={"task_type": "mail"},
        cron="0 3 * * *",
        time_zone="Europe/Berlin",
        next_at=conn.execute(text("select celeriac.now() + interval '1 h'")).scalar_one(),
    )
    assert check not in findings(celeriac)
    conn.execute(text(late))
    assert findings(celeriac)[check]["severity"] == Severity.PROBLEM


@pytest.mark.usefixtures("healthy")
def test_a_missing_partition_of_next_month_is_found(celeriac: Celeriac, conn: Connection) -> None:
    partitions = conn.execute(
        text("select inhrelid::regclass::text from pg_inherits where inhparent = 'celeriac.history'::regclass")
    ).scalars()
    for partition in [name for name in partitions if "default" not in name]:
        conn.execute(text(f"drop table {partition}"))
    assert "history_has_room" in findings(celeriac)


BROKEN: dict[str, str] = {
    "locked_says_by_whom": "update celeriac.queue set lease_owner = null where state = 'LOCKED'",
    "only_locked_has_an_owner": "update celeriac.queue set lease_owner = 'ghost' where state = 'READY'",
    "open_is_queued": "delete from celeriac.queue where state = 'READY'",
    "queued_is_open": "update celeriac.task set state = 'COMPLETED' where state = 'OPEN'",
    "queue_agrees_with_task": "update celeriac.queue set priority = priority + 1",
    "a_token_is_one_hand_over": "update celeriac.queue set fencing_token = 7",
    "tokens_come_from_the_sequence": "update celeriac.queue set fencing_token = 1000000 where state = 'LOCKED'",
    "keys_know_their_task": "update celeriac.idempotency set task_id = gen_random_uuid()",
    "constraints_are_valid": "alter table celeriac.queue add constraint young check (attempts < 9) not valid",
    "indexes_are_valid": "update pg_index set indisvalid = false where indexrelid = 'celeriac.queue_ready'::regclass",
    "one_lease_a_task": """
        alter table celeriac.queue drop constraint queue_pkey;
        insert into celeriac.queue select * from celeriac.queue where state = 'LOCKED'
    """,
}


BROKEN |= {
    "waiting_is_written_down": "update celeriac.task set state = 'WAITING' where state = 'OPEN'",
    "waiting_is_for_something": """
        insert into celeriac.waiting (task_id, since, turn_at, version, priority, payload_bytes, retries, attempts,
                                      expirations, undoing, task_type, fencing_token)
        select task_id, run_at, turn_at, version, priority, payload_bytes, retries, attempts,
               expirations, false, task_type, 1
          from celeriac.queue limit 1
    """,
    "only_waiting_can_be_woken": """
        insert into celeriac.wait (task_id, since, ordinal, branch, kind, name, topic, key, armed)
        select task_id, run_at, 1, '', 'signal', 'paid', 'paid', '', true from celeriac.queue limit 1
    """,
    "awaited_children_are_open": """
        insert into celeriac.wait (task_id, since, ordinal, branch, kind, name, child_id, armed)
        select task_id, run_at, 1, '', 'task', 'print', gen_random_uuid(), true from celeriac.queue limit 1
    """,
    "slots_are_right": """
        insert into celeriac.slot (task_type, key, number, task_id) values ('mail', 'k', 1, gen_random_uuid())
    """,
    "unknown_has_an_incident": """
        insert into celeriac.operation
               (id, task_id, started_at, ended_at, fencing_token, ordinal, attempt, branch, name, state)
        select gen_random_uuid(), task_id, run_at, run_at, 1, 1, 1, '', 'charge', 'UNKNOWN' from celeriac.queue limit 1
    """,
    "incidents_hold_their_task": """
        insert into celeriac.incident (id, task_id, created_at, kind, message)
        select gen_random_uuid(), task_id, run_at, 'other_code', 'expected a, found b' from celeriac.queue limit 1
    """,
    "what_is_undone_has_a_saga": "update celeriac.queue set undoing = true",
}  # fmt: skip


# Broken below, where there is an instance.
OF_INSTANCES = {
    "open_instances_stand_somewhere", "only_open_instances_have_tokens", "work_has_somebody_at_it",
    "stuck_tokens_have_an_incident",
}  # fmt: skip


def test_every_invariant_has_a_case_that_breaks_it() -> None:
    assert {invariant.name for invariant in invariants.INVARIANTS} == set(BROKEN) | OF_INSTANCES


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_invariant_is_found_and_named(
    celeriac: Celeriac, conn: Connection, enqueue: Enqueue, name: str
) -> None:
    for number in range(5):
        enqueue(idempotency_key=f"key {number}")
    fetch(conn)
    assert name not in findings(celeriac)
    bend(conn, BROKEN[name])
    found = findings(celeriac)[name]
    assert found["severity"] == Severity.PROBLEM
    assert found["where"]
    assert found["fix"]


def test_a_check_that_takes_too_long_is_a_note(
    healthy: Settings, celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(conn: Connection, _: Settings) -> list[Any]:
        conn.execute(text("select pg_sleep(60)"))
        return []

    monkeypatch.setattr(examination, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(invariants, "CHECKS", [slow])
    found = {entry["check"]: entry for entry in celeriac("doctor", "--json").json["findings"]}
    assert "not finished" in found["slow"]["what"]


def test_doctor_changes_nothing(healthy: Settings, celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch) -> None:
    def writing(conn: Connection, _: Settings) -> list[Any]:
        conn.execute(text("delete from celeriac.queue"))
        return []

    monkeypatch.setattr(invariants, "CHECKS", [writing])
    refused = celeriac("doctor")
    assert "read-only transaction" in refused.err + refused.out


ONE_TASK = model('<startEvent id="s"/>' + task_of("a") + '<endEvent id="e"/>' + flow("s", "a", "e"))


@pytest.fixture
def instance(celeriac: Celeriac, tmp_path: Path) -> str:
    """An open instance that stands on a task."""
    (tmp_path / "one.bpmn").write_bytes(ONE_TASK)
    celeriac("deploy", str(tmp_path / "one.bpmn"))
    return celeriac("start", "p").out.strip()


@pytest.mark.usefixtures("healthy", "instance")
@pytest.mark.parametrize(
    ("check", "harm"),
    [
        ("open_instances_stand_somewhere", "delete from celeriac.token"),
        ("only_open_instances_have_tokens", "update celeriac.instance set ended_at = started_at, status = 'CANCELED'"),
        ("work_has_somebody_at_it", "update celeriac.task set state = 'COMPLETED'"),
        ("stuck_tokens_have_an_incident", "update celeriac.token set stuck = true"),
        (
            "instances_move",
            "insert into celeriac.fact (instance_id, at, kind)"
            " select id, celeriac.now() - interval '1 h', 'continued' from celeriac.instance",
        ),
        (
            "event_timers_fire",
            "insert into celeriac.event_wait"
            " (instance_id, id, uid, token, fired, opened_at, due_at, kind, node, timing)"
            " select id, 9, gen_random_uuid(), 1, 0, started_at, celeriac.now() - interval '1 h', 'timer', 'a', 'PT1H'"
            " from celeriac.instance",
        ),
    ],
)
def test_instances_that_cannot_move_are_found(celeriac: Celeriac, conn: Connection, check: str, harm: str) -> None:
    assert check not in findings(celeriac)
    bend(conn, harm)
    assert findings(celeriac)[check]["severity"] == Severity.PROBLEM


@pytest.mark.usefixtures("healthy")
def test_a_suspended_instance_may_stand_still_and_an_incident_of_one_is_told_by_its_process(
    celeriac: Celeriac, conn: Connection, instance: str
) -> None:
    held = fetch(conn, "a")
    celeriac("instances", "suspend", instance)
    conn.execute(
        text(
            "insert into celeriac.fact (instance_id, at, kind)"
            " select id, celeriac.now() - interval '1 h', 'continued' from celeriac.instance"
        )
    )
    assert "instances_move" not in findings(celeriac)
    call.one(conn, "fail_task", task_id=held.task_id, worker_id="w1", error="no such address", retries=0)
    celeriac("instances", "resume", instance)
    assert findings(celeriac)["incidents_are_resolved"]["where"] == "process p"
