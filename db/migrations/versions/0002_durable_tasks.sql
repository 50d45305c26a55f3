-- Durable tasks: what a task has done so far (step, operation), what it waits for (waiting, wait), what can be sent to it
-- (signal), what must be undone (compensation, saga), what a person must look at (incident); schedules and limits.

-- How many tasks of one concurrency key may be held at once, and how many of the type may be handed out in rate_ms.
alter table celeriac.task_type
    add column concurrency integer check (concurrency between 1 and 10000),
    add column rate_tasks  integer check (rate_tasks between 1 and 1000000),
    add column rate_ms     bigint  check (rate_ms between 1 and 2592000000),
    add constraint rate_has_a_period check ((rate_tasks is null) = (rate_ms is null));

-- lives: how often it began anew after it had been undone; part of the keys that it hands to others.
alter table celeriac.task
    add column concurrency_key text,
    add column lives integer not null default 0;

-- BLOCKED: ready, but its concurrency key has no free slot; the one who frees a slot makes it READY.
-- resumed: it may have steps to replay. undoing: it is being undone, and ends FAILED or CANCELED.
alter table celeriac.queue
    add column resumed boolean not null default false,
    add column undoing boolean not null default false,
    add column concurrency_key text,
    drop constraint known_state,
    add constraint known_state check (state in ('READY', 'SCHEDULED', 'LOCKED', 'BLOCKED')),
    add constraint blocked_has_a_key check (state <> 'BLOCKED' or concurrency_key is not null);
-- Only tasks with a concurrency key: who of a key is next, and how many have been let in and not yet been handed out.
create index queue_keyed on celeriac.queue (task_type, concurrency_key, version, state, (-priority), turn_at, task_id)
    where concurrency_key is not null and state in ('READY', 'BLOCKED');

alter table celeriac.history
    drop constraint history_kind_check,
    add constraint history_kind_check check (kind in (
        'failed', 'lease_lost', 'released', 'suspended', 'canceled', 'redriven', 'refused',
        'woken', 'incident', 'resolved', 'undoing', 'undone'));

-- What a task has done: one row a durable call that has come to its end. `branch` is empty for the handler itself, else
-- the path of the ctx.gather that the call is in; `ordinal` counts the durable calls of a branch from 1.
-- A result of SQL null is None; error is set when the step failed for good and the handler went on without it.
create table celeriac.step (
    task_id       uuid        not null,
    recorded_at   timestamptz not null,
    fencing_token bigint,
    ordinal       integer     not null check (ordinal >= 1),
    branch        text        not null collate "C",
    kind          text        not null check (kind in ('step', 'operation', 'transaction', 'signal', 'timer', 'task', 'enqueue')),
    name          text        not null,
    result        jsonb,
    error         text,
    primary key (task_id, branch, ordinal)
);

-- The ledger: a step with an effect outside. STARTED is written before the effect; an attempt without a result is
-- reconciled: DONE, NOT_DONE (may be begun again), or UNKNOWN, which a person must decide. Its result is that of its step.
create table celeriac.operation (
    id            uuid        primary key,
    task_id       uuid        not null,
    started_at    timestamptz not null,
    ended_at      timestamptz,
    fencing_token bigint      not null,
    ordinal       integer     not null,
    attempt       integer     not null check (attempt >= 1),
    branch        text        not null collate "C",
    name          text        not null,
    state         text        not null check (state in ('STARTED', 'DONE', 'NOT_DONE', 'UNKNOWN', 'FAILED')),
    plan          jsonb,
    error         text,
    unknown_at    timestamptz,
    unique (task_id, branch, ordinal),
    constraint ended_when_settled check ((ended_at is not null) = (state <> 'STARTED')),
    constraint unknown_since_then check ((unknown_at is not null) = (state = 'UNKNOWN'))
) with (fillfactor = 70);
-- Not `where state = 'UNKNOWN'`, though it means the same: then no change of the state could spare the other indexes.
create index operation_unknown on celeriac.operation (id) where unknown_at is not null;

-- A task that waits: what its queue row held. It has no worker, no lease and no slot. Exactly the tasks in state WAITING.
create table celeriac.waiting (
    task_id       uuid        primary key,
    since         timestamptz not null,
    turn_at       timestamptz not null,
    version       integer     not null,
    priority      integer     not null,
    payload_bytes integer     not null,
    retries       integer     not null,
    attempts      integer     not null,
    expirations   integer     not null,
    undoing       boolean     not null,
    task_type     text        not null,
    fencing_token bigint      not null  -- of the attempt that ended here: its worker may ask again
);

-- What it waits for. Armed while it waits; disarmed when something else woke it, so that the time-out stays what it was.
create table celeriac.wait (
    task_id     uuid        not null,
    since       timestamptz not null,
    until       timestamptz,
    child_id    uuid,
    incident_id uuid,
    ordinal     integer     not null,
    branch      text        not null collate "C",
    kind        text        not null check (kind in ('signal', 'timer', 'task', 'incident')),
    name        text        not null,
    topic       text        collate "C",
    key         text        collate "C",
    armed       boolean     not null,
    primary key (task_id, branch, ordinal),
    constraint known_by_kind check (
        case kind when 'signal' then topic is not null and key is not null
                  when 'timer' then until is not null
                  when 'task' then child_id is not null
                  else incident_id is not null end)
) with (fillfactor = 80);
create index wait_signal on celeriac.wait (topic, key, since, task_id) where armed and topic is not null;
create index wait_due on celeriac.wait (until, task_id) where armed and until is not null;
create index wait_child on celeriac.wait (child_id) where armed and child_id is not null;

-- A durable, named fact. Key '' is no key. One that nobody waits for is kept until it expires; a broadcast is for every
-- task that waits for it until then, once each (signal_receipt).
create table celeriac.signal (
    id         uuid        primary key,
    sent_at    timestamptz not null,
    expires_at timestamptz not null,
    taken_at   timestamptz,
    taken_by   uuid,
    broadcast  boolean     not null,
    topic      text        not null collate "C",
    key        text        not null collate "C",
    dedupe_id  text        collate "C",
    sender     text        not null,
    only_types text[],  -- the types that the sender may touch; null: all
    payload    jsonb
);
create index signal_kept on celeriac.signal (topic, key, id) where taken_at is null;
create unique index signal_once on celeriac.signal (topic, key, dedupe_id) where dedupe_id is not null;
create index signal_expiry on celeriac.signal (expires_at);
create table celeriac.signal_receipt (
    signal_id uuid        not null references celeriac.signal (id) on delete cascade,
    task_id   uuid        not null,
    taken_at  timestamptz not null,
    primary key (signal_id, task_id)
);

-- What must still follow, left by a transition that must not wait for rows that another one holds: a signal to be delivered
-- to more waiters, the end of a child to be heard, a task to be canceled with its parent. fire_timers does it.
create table celeriac.follow_up (
    id         bigint  generated always as identity primary key,
    kind       text    not null check (kind in ('signal', 'child', 'cancel')),
    subject    uuid    not null,
    compensate boolean,
    reason     text,
    principal  text
);

-- Who asked for a task from inside another.
create table celeriac.child (
    task_id   uuid primary key,
    parent_id uuid not null
);
create index child_of on celeriac.child (parent_id, task_id);

-- What must be undone if the task fails for good, in the order in which it was registered (before its step began).
create table celeriac.compensation (
    task_id       uuid        not null,
    number        integer     not null check (number >= 1),
    ordinal       integer     not null,
    branch        text        not null collate "C",
    name          text        not null,
    state         text        not null default 'REGISTERED' check (state in ('REGISTERED', 'DONE', 'SKIPPED')),
    error         text,
    registered_at timestamptz not null,
    ended_at      timestamptz,
    primary key (task_id, number),
    unique (task_id, branch, ordinal),
    constraint ended_when_settled check ((ended_at is not null) = (state <> 'REGISTERED'))
);

-- A task that is, or was, being undone: why, and how it will have ended. One row a task: a rollback begins once.
-- `holder` …: who was at the task when it was canceled, and when that lease would have ended.
create table celeriac.saga (
    task_id          uuid        primary key,
    cause            text        not null check (cause in ('failed', 'canceled')),
    error            text,
    began_at         timestamptz not null,
    ended_at         timestamptz,
    holder           text,
    holder_principal text,
    holder_token     bigint,
    holder_until     timestamptz
);

-- Something that a person must look at; the task stays where it is.
create table celeriac.incident (
    id           uuid        primary key,
    task_id      uuid        not null,
    created_at   timestamptz not null,
    resolved_at  timestamptz,
    operation_id uuid,
    ordinal      integer,
    branch       text,
    kind         text        not null check (kind in ('operation_unknown', 'other_code', 'undo_failed')),
    name         text,
    message      text        not null,
    detail       jsonb       not null default '{}',
    resolution   text,
    resolved_by  text,
    note         text
);
create index incident_open on celeriac.incident (id) where resolved_at is null;
create index incident_of on celeriac.incident (task_id);

-- The slots of a concurrency key that are taken. The primary key is what makes a limit exact.
create table celeriac.slot (
    task_type text    not null,
    key       text    not null,
    number    integer not null check (number >= 1),
    task_id   uuid    not null unique,
    primary key (task_type, key, number)
);

-- Keys to look at again: a slot of theirs came free, or a task of theirs became BLOCKED. Append-only, so nobody waits here;
-- who takes a row away has looked with a snapshot that holds what its writer has done, and is not that writer itself.
create table celeriac.opening (
    id        bigint generated always as identity,
    writer    xid8   not null default pg_current_xact_id(),
    task_type text   not null,
    key       text   not null,
    primary key (task_type, key, id)
);

-- What a rate-limited type has handed out of late: in each stretch, its first and last moment and how many. rung_for: when
-- the ring is due that has been asked for, for the time when more may be handed out.
create table celeriac.rate (
    task_type text          primary key,
    first_at  timestamptz[] not null default '{}',
    last_at   timestamptz[] not null default '{}',
    tasks     integer[]     not null default '{}',
    rung_for  timestamptz   not null default '-infinity'
) with (fillfactor = 50);

-- When to enqueue what: cron, or every period from an anchor, on the clocks of a time zone; slots are the times that it
-- names. next_at is the next one; null while it is paused, when its timing cannot be read (error says so) or has ended.
create table celeriac.schedule (
    name          text        primary key collate "C",
    next_at       timestamptz,
    last_slot_at  timestamptz,
    anchor_at     timestamptz,
    created_at    timestamptz not null,
    updated_at    timestamptz not null,
    fired         bigint      not null default 0,
    missed        bigint      not null default 0,
    last_task_id  uuid,
    paused        boolean     not null default false,
    catch_up      text        not null default 'one' check (catch_up in ('one', 'all', 'none')),
    cron          text,
    every         text,
    time_zone     text        not null,
    slot_variable text,
    task          jsonb       not null,
    principal     text        not null,
    error         text,
    constraint cron_or_every check ((cron is null) <> (every is null)),
    constraint every_has_an_anchor check ((every is null) = (anchor_at is null)),
    constraint paused_is_not_due check (not paused or next_at is null)
) with (fillfactor = 70);
create index schedule_due on celeriac.schedule (next_at, name) where next_at is not null;

-- How many schedules have fired in the present second: one row.
create table celeriac.schedule_pace (
    singleton boolean     primary key default true check (singleton),
    second    timestamptz not null,
    starts    integer     not null
) with (fillfactor = 50);

-- Settings and keys of limits on their way through the functions.
drop function if exists celeriac.register_task_type(
    text, bigint, integer, bigint, double precision, bigint, double precision, integer, text, text, text, text[]);
drop function if exists celeriac.check_task_type(
    text, bigint, integer, bigint, double precision, bigint, double precision, integer, text, text);
alter type celeriac.asked_task add attribute concurrency_key text, add attribute state text;
alter type celeriac.picked_task add attribute concurrency_key text;
create type celeriac.admitted_task as (task_id uuid, task_type text);
create type celeriac.rate_left as (task_type text, tasks integer, next_at timestamptz);

-- What a worker gets with its next task, and what several extensions are answered.
alter type celeriac.leased_task add attribute resumed boolean, add attribute undoing boolean, add attribute expirations integer,
    add attribute lives integer;
create type celeriac.next_task as (
    ordinal integer, code text, message text,
    task_id uuid, token_id uuid, instance_id uuid, task_type text, version integer, business_key text, variables jsonb,
    fencing_token bigint, lock_expires_at timestamptz, lock_duration_ms bigint, retries integer, attempt integer,
    priority integer, created_at timestamptz, resumed boolean, undoing boolean, expirations integer, lives integer
);
create type celeriac.extension_answer as (ordinal integer, task_id uuid, lock_duration_ms bigint, code text, message text);

-- What operations, incidents and their resolutions are answered with.
create type celeriac.begun_operation as (operation_id uuid, state text, attempt integer, fresh boolean, plan jsonb, error text);
create type celeriac.settled_operation as (operation_id uuid, state text);
create type celeriac.resolved_operation as (operation_id uuid, state text, task_id uuid, task_type text);
create type celeriac.resolved_incident as (incident_id uuid, task_id uuid, task_type text, resolution text);

-- One thing to wait for as suspend_task reads it, and as it answers what has come.
create type celeriac.asked_wait as (
    branch text, ordinal integer, kind text, name text, topic text, key text, child_id uuid, until timestamptz, known boolean
);
create type celeriac.met_wait as (
    branch text, ordinal integer, kind text, name text, state text, result jsonb, error text
);
create type celeriac.child_state as (ordinal integer, task_id uuid, state text);

-- Signatures that changed: a cancel can ask for compensation, and its end is judged before it is called.
drop function if exists celeriac.cancel_task(uuid, text, text, text[]);
drop function if exists celeriac.end_canceled(uuid, celeriac.queue, text, text);
