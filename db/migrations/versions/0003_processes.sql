-- Processes: what is deployed (deployment, resource, definition), what runs (instance) and where it stands (scope, token,
-- variable, event_wait, undo, undo_run), what has happened to it and is not worked in yet (fact), and what was (instance_history).
-- The words are those of app/process; its functions decide, apply_decision writes.

create table celeriac.deployment (
    id          uuid        primary key,
    name        text        not null,
    principal   text        not null,
    deployed_at timestamptz not null,
    report      jsonb       not null default '[]'
);

create table celeriac.resource (
    deployment_id uuid  not null references celeriac.deployment (id) on delete cascade,
    name          text  not null,
    content       bytea not null,
    primary key (deployment_id, name)
);

-- One version of one process. `graph` is what tokens move on; `checksum` is of the file it came from and the options.
-- `topics`: the task types that it asks for; * where an expression names one. `startable`: it has a start event of no kind.
create table celeriac.definition (
    id            uuid        primary key,
    key           text        not null,
    version       integer     not null check (version >= 1),
    name          text,
    version_tag   text,
    checksum      bytea       not null,
    deployment_id uuid        not null references celeriac.deployment (id),
    resource      text        not null,
    graph         jsonb       not null,
    topics        text[]      not null default '{}',
    startable     boolean     not null default true,
    suspended     boolean     not null default false,
    deployed_at   timestamptz not null,
    unique (key, version)
);
create index definition_of_deployment on celeriac.definition (deployment_id);

-- Start events of the newest versions that something else than a person begins: messages, signals, timers.
create table celeriac.start_wait (
    definition_id uuid        not null references celeriac.definition (id) on delete cascade,
    node          text        not null,
    kind          text        not null check (kind in ('message', 'signal', 'timer')),
    name          text,
    due_at        timestamptz,
    timing        text,
    opened_at     timestamptz not null,
    fired         integer     not null default 0,
    primary key (definition_id, node)
);
create index start_wait_name on celeriac.start_wait (kind, name) where name is not null;
create index start_wait_due on celeriac.start_wait (due_at) where due_at is not null;

create table celeriac.instance (
    id              uuid        primary key,
    definition_id   uuid        not null,
    started_at      timestamptz not null,
    ended_at        timestamptz,
    number          integer     not null default 0,
    suspended       boolean     not null default false,
    status          text        not null default 'ACTIVE'
        check (status in ('ACTIVE', 'COMPENSATING', 'COMPLETED', 'FAILED_COMPENSATED', 'CANCELED')),
    outcome         text        check (outcome in ('FAILED_COMPENSATED', 'CANCELED')),
    business_key    text,
    idempotency_key text,
    principal       text        not null,
    reason          text,
    constraint ended_when_final check ((ended_at is not null) = (status in ('COMPLETED', 'FAILED_COMPENSATED', 'CANCELED')))
) with (fillfactor = 70);
create index instance_of_definition on celeriac.instance (definition_id, id);
create index instance_of_business_key on celeriac.instance (business_key, id) where business_key is not null;
create index instance_open on celeriac.instance (id) where ended_at is null;
create index instance_open_of_definition on celeriac.instance (definition_id) where ended_at is null;
create unique index instance_idempotency on celeriac.instance (principal, idempotency_key) where idempotency_key is not null;

create table celeriac.scope (
    instance_id uuid    not null,
    id          integer not null,
    parent      integer,
    host        integer,
    alive       integer not null check (alive >= 0),
    ended       boolean not null,
    node        text    not null,
    primary key (instance_id, id)
) with (fillfactor = 70);

-- `uid` is what the rest of the world calls a token: the token_id of its task.
create table celeriac.token (
    instance_id uuid        not null,
    id          integer     not null,
    uid         uuid        not null unique,
    entered_at  timestamptz not null,
    scope       integer     not null,
    undoes      integer,
    run         integer,
    stuck       boolean     not null,
    phase       text        not null check (phase in ('STANDING', 'JOINING', 'ENTERING', 'LEAVING')),
    node        text        not null,
    via         text,
    variables   jsonb       not null,
    primary key (instance_id, id)
) with (fillfactor = 70);
create index task_of_token on celeriac.task (token_id) where token_id is not null;

-- Of a scope. `type` is the name that a Camunda client gave; null: what the JSON says.
create table celeriac.variable (
    instance_id uuid    not null,
    scope       integer not null,
    name        text    not null,
    type        text,
    value       jsonb   not null,
    primary key (instance_id, scope, name)
);

-- By its hash: a value may be longer than an entry of an index.
create index variable_value on celeriac.variable (name, jsonb_hash_extended(value, 0));

create table celeriac.event_wait (
    instance_id uuid        not null,
    id          integer     not null,
    token       integer     not null,
    fired       integer     not null,
    opened_at   timestamptz not null,
    due_at      timestamptz,
    kind        text        not null check (kind in ('message', 'signal', 'timer')),
    node        text        not null,
    name        text,
    timing      text,
    primary key (instance_id, id),
    constraint known_by_kind check (case kind when 'timer' then timing is not null else true end)
) with (fillfactor = 80);
create index event_wait_name on celeriac.event_wait (kind, name) where name is not null;
create index event_wait_due on celeriac.event_wait (due_at, instance_id) where due_at is not null;

create table celeriac.undo (
    instance_id uuid    not null,
    id          integer not null,
    scope       integer not null,
    inner_scope integer,
    used        boolean not null,
    activity    text    not null,
    handler     text,
    primary key (instance_id, id)
);

create table celeriac.undo_run (
    instance_id uuid      not null,
    id          integer   not null,
    running     integer   not null,
    pending     integer[] not null,
    primary key (instance_id, id)
);

-- What has happened to an instance and is not worked in yet. Written by whoever ends a task or fires a wait, without a
-- lock on the instance; consumed by the advance that works it in. It is the outbox of advances as well.
create table celeriac.fact (
    id          bigint      generated always as identity primary key,
    instance_id uuid        not null,
    at          timestamptz not null,
    kind        text        not null
        check (kind in ('started', 'completed', 'failed', 'thrown', 'happened', 'continued', 'stopped')),
    token_uid   uuid,
    wait_id     integer,
    payload     jsonb       not null default '{}'
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
create index fact_of on celeriac.fact (instance_id, id);
create index fact_due on celeriac.fact (at, instance_id);

create table celeriac.instance_history (
    instance_id uuid        not null,
    number      bigint      generated always as identity,
    at          timestamptz not null,
    token       integer     not null,
    token_uid   uuid,
    what        text        not null check (what in ('entered', 'left', 'canceled', 'happened', 'undone', 'migrated')),
    node        text        not null,
    primary key (instance_id, number)
);

-- A message or signal that nobody waited for, kept because its sender asked for that. A signal is for every instance that waits
-- for it until it expires, once each (kept_event_receipt).
create table celeriac.kept_event (
    id           uuid        primary key,
    sent_at      timestamptz not null,
    expires_at   timestamptz not null,
    kind         text        not null check (kind in ('message', 'signal')),
    name         text        not null,
    business_key text,
    correlation  jsonb       not null default '{}',
    variables    jsonb       not null default '{}',
    sender       text        not null,
    only_types   text[]
);
create index kept_event_name on celeriac.kept_event (kind, name, id);
create index kept_event_expiry on celeriac.kept_event (expires_at);
create table celeriac.kept_event_receipt (
    event_id    uuid not null references celeriac.kept_event (id) on delete cascade,
    instance_id uuid not null,
    primary key (event_id, instance_id)
);

-- Incidents of instances: of a token, with or without a task.
alter table celeriac.incident
    alter column task_id drop not null,
    add column instance_id uuid,
    add column token_uid uuid,
    drop constraint incident_kind_check,
    add constraint incident_kind_check check (kind in (
        'operation_unknown', 'other_code', 'undo_failed', 'expression', 'model', 'loop', 'failed')),
    add constraint belongs_to_something check (task_id is not null or instance_id is not null);
create index incident_of_instance on celeriac.incident (instance_id) where instance_id is not null;
alter table celeriac.history
    drop constraint history_kind_check,
    add constraint history_kind_check check (kind in (
        'failed', 'lease_lost', 'released', 'suspended', 'canceled', 'redriven', 'refused',
        'woken', 'incident', 'resolved', 'undoing', 'undone', 'thrown'));

-- What the functions of processes answer with.
create type celeriac.applied_decision as (instance_id uuid, status text, task_types text[], facts integer, reached uuid[]);
create type celeriac.task_write as (ordinal integer, task_id uuid, fencing_token bigint, item jsonb);
create type celeriac.fitting_wait as (instance_id uuid, wait_id integer);
create type celeriac.started_instance as (instance_id uuid, created boolean);
create type celeriac.deployed_definition as (
    deployment_id uuid, definition_id uuid, key text, version integer, created boolean
);
create type celeriac.reached_instance as (instance_id uuid, definition_id uuid, started boolean);
create type celeriac.due_start as (
    definition_id uuid, node text, due_at timestamptz, timing text, fired integer, opened_at timestamptz
);

-- Whoever ends a task is told which instance waits for that, so that it can be advanced at once.
alter type celeriac.write_answer add attribute instance_id uuid;
alter type celeriac.resolved_incident add attribute instance_id uuid;
create type celeriac.ended_task as (task_id uuid, state text, instance_id uuid);
create type celeriac.failed_task as (task_id uuid, state text, retries integer, run_at timestamptz, instance_id uuid);
drop function if exists celeriac.complete_task(uuid, text, bigint, jsonb, text, text[]);
drop function if exists celeriac.complete_tasks(jsonb, text, text, text[]);
drop function if exists celeriac.fail_task(uuid, text, bigint, text, bigint, integer, text, text[]);
drop function if exists celeriac.fail_tasks(jsonb, text, text, text[]);
drop function if exists celeriac.cancel_task(uuid, text, boolean, text, text[]);
drop type celeriac.task_failure;
