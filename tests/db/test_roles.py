"""The two roles may call what serves callers and read views; nothing else, and nobody else anything."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection

from app.dev.postgres import EmbeddedPostgres
from db.engine import sync_engine
from tests.db.clerk import Clerk
from tests.db.waits import children, for_signal, send, suspend

ROLES = ("celeriac_api", "celeriac_fleet")
# Whoever serves callers; the fleet does not keep keys. Listed here by hand: a new one is a decision.
SERVES_CALLERS = {
    "enqueue_tasks", "fetch_tasks", "extend_lease", "complete_task", "complete_tasks", "fail_task", "fail_tasks",
    "release_task", "complete_and_fetch", "extend_leases", "release_leases",
    "record_refusal", "cancel_task", "redrive_task", "redrive_tasks", "register_task_type",
    "register_worker", "heartbeat_worker", "ready_types", "expire_leases", "promote_due", "purge_ended",
    "maintain_history", "oldest_snapshot_age_ms", "take_outbox", "settle_outbox", "resend_outbox", "ring_stale", "now",
    "record_steps", "read_steps", "begin_operation", "settle_operation", "resolve_operation", "raise_incident",
    "resolve_incident", "register_compensation", "read_compensations", "settle_compensation", "finish_undo",
    "suspend_task", "send_signal", "fire_timers", "enqueue_children",
    "start_instance", "throw_event", "throw_task",
    "put_schedule", "delete_schedule", "pause_schedule", "due_schedules", "fire_schedule",
}  # fmt: skip
KEEPS_KEYS = {"create_api_key", "find_api_key", "revoke_api_key"}
MOVES_INSTANCES = {
    "deploy_models", "delete_deployment", "load_instance", "apply_decision", "stop_instance", "suspend_instance",
    "migrate_instance", "suspend_definition", "delete_instance",
    "set_variables", "visible_variables", "store_file", "read_file", "complete_token", "purge_instances",
    "assign_token", "describe_token", "throw_token", "fire_event_timer", "move_event_timer",
    "due_instances", "fire_event_timers", "due_starts",
    "fire_start",
}  # fmt: skip
# What external tasks are to the Camunda face; a fleet speaks the native one.
CAMUNDA_TASKS = {
    "fetch_external_tasks", "complete_external_task", "fail_external_task", "throw_external_task", "lock_external_task",
    "extend_external_task", "unlock_external_task", "set_external_task_retries", "set_external_task_priority",
    "free_external_tasks", "describe_external_tasks",
}  # fmt: skip


@pytest.fixture(params=ROLES)
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def as_role(role: str, database_url: str) -> Iterator[Connection]:
    engine = sync_engine(f"{database_url}?options=-crole%3D{role}")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def names(clerk: Clerk, statement: str, **values: Any) -> set[str]:
    return {row["name"] for row in clerk.query(statement, **values)}


def test_a_role_may_call_what_serves_callers_and_no_inner_function(clerk: Clerk, role: str) -> None:
    statement = """
        select proname as name from pg_proc
         where pronamespace = 'celeriac'::regnamespace
           and has_function_privilege(cast(:role as name), oid, 'execute')"""
    expected = SERVES_CALLERS | (KEEPS_KEYS | MOVES_INSTANCES | CAMUNDA_TASKS if role == "celeriac_api" else set())
    assert names(clerk, statement, role=role) == expected


def test_a_role_may_read_views_and_touch_nothing_else(clerk: Clerk, role: str) -> None:
    for right in ("select", "insert", "update", "delete", "truncate", "references", "trigger"):
        statement = f"""
            select relname as name from pg_class
             where relnamespace = 'celeriac'::regnamespace and relkind in ('r', 'p', 'v')
               and has_table_privilege(cast(:role as name), oid, '{right}')"""
        views = names(clerk, "select viewname as name from pg_views where schemaname = 'celeriac'")
        hidden = {"api_keys", "resources"} if role == "celeriac_fleet" else set()
        assert names(clerk, statement, role=role) == (views - hidden if right == "select" else set()), right
    sequences = """
        select sequencename as name from pg_sequences where schemaname = 'celeriac'
           and has_sequence_privilege(cast(:role as name), 'celeriac.' || sequencename, 'usage, select, update')"""
    assert names(clerk, sequences, role=role) == set()
    assert clerk.scalar("select has_schema_privilege(cast(:role as name), 'celeriac', 'create')", role=role) is False


def test_everyone_else_has_nothing(clerk: Clerk) -> None:
    functions = """
        select proname as name from pg_proc
         where pronamespace = 'celeriac'::regnamespace and has_function_privilege('stranger', oid, 'execute')"""
    relations = """
        select relname as name from pg_class
         where relnamespace = 'celeriac'::regnamespace and relkind in ('r', 'p', 'v')
           and has_table_privilege('stranger', oid, 'select, insert, update, delete')"""
    clerk.run("create role stranger")
    try:
        assert not clerk.scalar("select has_schema_privilege('stranger', 'celeriac', 'usage')")
        assert names(clerk, functions) == names(clerk, relations) == set()
    finally:
        clerk.run("drop role stranger")


def test_a_role_cannot_log_in_or_become_more(clerk: Clerk, role: str) -> None:
    (row,) = clerk.query("select * from pg_roles where rolname = :role", role=role)
    rights = ("rolsuper", "rolcreaterole", "rolcreatedb", "rolcanlogin", "rolreplication", "rolbypassrls")
    assert not any(row[right] for right in rights)


def test_every_view_that_a_role_may_read_can_be_read(clerk: Clerk, as_role: Connection) -> None:
    """A view runs its functions with the rights of who reads it."""
    for view in sorted(names(clerk, "select viewname as name from pg_views where schemaname = 'celeriac'")):
        if clerk.scalar("select has_table_privilege(cast(:role as name), cast(:view as text), 'select')",
                        role=Clerk(as_role).scalar("select current_user"), view=f"celeriac.{view}"):  # fmt: skip
            Clerk(as_role).query(f"select * from celeriac.{view}")


def test_a_role_can_do_all_the_work(as_role: Connection) -> None:
    worker = Clerk(as_role)
    worker.one("register_task_type", name="mail", delivery="celery")
    worker.one("register_worker", worker_id="w1", task_types=["mail"])
    worker.one("heartbeat_worker", worker_id="w1")
    task = worker.held()
    worker.extend(task)
    worker.release(task)
    (task,) = worker.fetch()
    worker.fail(task, retries=0)
    worker.one("redrive_task", task_id=task.task_id)
    worker.complete(worker.fetch()[0])
    worker.cancel(worker.enqueue())
    worker.dead()
    worker.rows("redrive_tasks")
    parent = worker.held("parent")
    children(worker, parent)
    suspend(worker, parent, for_signal(ordinal=2))
    assert send(worker).delivered == 1
    for chore in ("expire_leases", "promote_due", "fire_timers", "ring_stale", "resend_outbox", "settle_outbox"):
        worker.one(chore)
    worker.rows("take_outbox", channel="ring")
    worker.one("purge_ended", older_than_ms=0)
    worker.one("maintain_history", older_than_ms=0)
    worker.rows("ready_types", task_types=["mail"])


def test_whoever_does_not_say_who_it_is_goes_by_the_name_it_logged_in_with(as_role: Connection) -> None:
    task = Clerk(as_role).held()
    assert Clerk(as_role).query("select principal from celeriac.task_list where task_id = :id", id=task.task_id) == [
        {"principal": "postgres"}
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "select * from celeriac.task", "select * from celeriac.queue", "select * from celeriac.api_key",
        "insert into celeriac.task (id) values (gen_random_uuid())",
        "update celeriac.queue set state = 'READY'", "delete from celeriac.task", "truncate celeriac.history",
        "update celeriac.task_list set state = 'COMPLETED'", "select nextval('celeriac.fencing_token')",
        "select celeriac.refuse('invalid', 'x')", "select celeriac.ring(array['mail'])",
        "select celeriac.state_of(null)", "select celeriac.may_touch('pay', null)",
        "create table celeriac.mine (id int)", "create function celeriac.mine() returns int language sql as 'select 1'",
        "alter function celeriac.now() owner to current_user", "drop view celeriac.depths",
        "set session authorization postgres",
    ],
)  # fmt: skip
def test_what_a_role_may_not_is_denied(postgres: EmbeddedPostgres, clerk: Clerk, role: str, statement: str) -> None:
    """As a login of its own that is a member, as in production; a superuser could change back."""
    clerk.enqueue()
    before = clerk.everything()
    clerk.run(f"create role someone login in role {role}")
    try:
        url = f"postgresql://someone@127.0.0.1:{postgres.port}/{clerk.scalar('select current_database()')}"
        with psycopg.connect(url, autocommit=True) as connection, pytest.raises(psycopg.errors.Error) as caught:
            connection.execute(statement)
        assert caught.value.sqlstate in ("42501", "55000"), caught.value
    finally:
        clerk.run("drop role someone")
    assert clerk.everything() == before


@pytest.mark.parametrize(
    "trap",
    [
        "create temp table task (id uuid, state text)",
        "create temp table queue (task_id uuid)",
        "create function pg_temp.now() returns timestamptz language sql as $$ select '1999-01-01Z'::timestamptz $$",
        "create function pg_temp.may_touch(text, text[]) returns boolean language sql as 'select true'",
        "create function pg_temp.coalesce_(text) returns text language sql as 'select current_user'",
        "create function pg_temp.octet_length(text) returns int language sql as 'select 0'",
        "create type pg_temp.task_state as (task_id uuid, state text, trap int)",
        "create domain pg_temp.uuid as int",
    ],
)
def test_a_thing_of_the_callers_named_like_ours_bends_nothing(as_role: Connection, trap: str) -> None:
    """A security definer function must not look at what its caller has laid out."""
    caller = Clerk(as_role)
    caller.run(trap)
    caller.run("set search_path = pg_temp, public, celeriac, pg_catalog")
    task = caller.held(variables={"n": 1})
    assert caller.extend(task).lock_expires_at.year >= 2024
    assert caller.complete(task).state == "COMPLETED"
    with pytest.raises(Exception, match="not among the task types"):
        caller.enqueue_items([{"task_type": "pay"}], only_types=["mail"])


def test_an_operator_of_the_callers_bends_nothing(as_role: Connection) -> None:
    caller = Clerk(as_role)
    caller.run("create function pg_temp.yes(text, text) returns boolean language sql as 'select true'")
    caller.run("create operator pg_temp.~~ (leftarg = text, rightarg = text, function = pg_temp.yes)")
    caller.run("set search_path = pg_temp, celeriac, pg_catalog")
    with pytest.raises(Exception, match="not among the task types"):
        caller.enqueue_items([{"task_type": "pay"}], only_types=["mail"])
