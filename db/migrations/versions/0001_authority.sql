-- The authority: what is asked (task), what is open (queue), what must leave (outbox), what was out of the ordinary (history).
-- Nobody but the functions of db/functions writes these tables; the roles of db/roles.sql see views only.



-- One sequence for every hand-over: tokens of a task only grow and never repeat, also across a crash.
create sequence celeriac.fencing_token as bigint;
-- Counts refused stale writes. A sequence, because its steps survive the roll-back that a refusal causes.
create sequence celeriac.refused_write as bigint;

create table celeriac.task_type (
    name               text primary key,
    lease_ms           bigint           not null default 30000   check (lease_ms between 1 and 2592000000),
    retries            integer          not null default 3       check (retries >= 1),
    backoff_first_ms   bigint           not null default 1000    check (backoff_first_ms between 0 and 3155760000000),
    backoff_factor     double precision not null default 2       check (backoff_factor between 1 and 100),
    backoff_cap_ms     bigint           not null default 300000  check (backoff_cap_ms between 0 and 3155760000000),
    backoff_jitter     double precision not null default 0.1     check (backoff_jitter between 0 and 1),
    expirations        integer          not null default 5       check (expirations >= 0),
    delivery           text             not null default 'pull'  check (delivery in ('pull', 'celery')),
    queue              text,
    created_at         timestamptz      not null,
    updated_at         timestamptz      not null,
    constraint celery_has_a_queue check ((delivery = 'celery') = (queue is not null))
);

-- Cold: what is asked and what came of it. Written at enqueue and at the end, never by a fetch.
-- What the end changes stands last, and pages keep room for it: then an update on the same page logs only its tail,
-- not the variables again.
create table celeriac.task (
    id               uuid        primary key,
    token_id         uuid,
    instance_id      uuid,
    created_at       timestamptz not null,
    version          integer     not null,
    priority         integer     not null,
    retries          integer     not null,
    redrives         integer     not null default 0,
    task_type        text        not null,
    business_key     text,
    idempotency_key  text,
    fairness_key     text,
    variables        jsonb       not null,
    policy           jsonb,
    state            text        not null default 'OPEN',
    attempts         integer     not null default 0,
    expirations      integer     not null default 0,
    fencing_token    bigint,
    started_at       timestamptz,
    ended_at         timestamptz,
    worker_id        text,
    principal        text,
    result           jsonb,
    error            text,
    constraint known_state        check (state in ('OPEN', 'WAITING', 'COMPLETED', 'FAILED', 'CANCELED')),
    constraint ended_when_final   check ((ended_at is not null) = (state in ('COMPLETED', 'FAILED', 'CANCELED'))),
    constraint result_of_complete check ((result is not null) = (state = 'COMPLETED')),
    constraint failed_says_why    check (state <> 'FAILED' or error is not null),
    constraint final_has_a_token  check (state not in ('COMPLETED', 'FAILED') or fencing_token is not null)
) with (fillfactor = 80);

-- Lists of what is rare and looked for. Completed tasks are not in it, so a task that just works pays nothing for it.
create index task_set_apart on celeriac.task (state, id) where state in ('WAITING', 'FAILED', 'CANCELED');

-- Hot: only open work. A row leaves when its task ends or waits, so claims never see history.
-- reap_at says when expire_leases looks at a lease again. It is indexed and lags behind lease_expires_at,
-- which is not: so a heartbeat rewrites no index (a HOT update; the free space is for it).
create table celeriac.queue (
    task_id          uuid        primary key,
    run_at           timestamptz not null,
    turn_at          timestamptz not null,
    version          integer     not null,
    priority         integer     not null,
    payload_bytes    integer     not null,
    retries          integer     not null,
    expirations      integer     not null default 0,
    task_type        text        not null,
    state            text        not null,
    attempts         integer     not null default 0,
    fencing_token    bigint      not null,
    leased_at        timestamptz,
    lease_expires_at timestamptz,
    reap_at          timestamptz,
    lease_owner      text,
    lease_principal  text,
    constraint known_state check (state in ('READY', 'SCHEDULED', 'LOCKED')),
    constraint lease_when_locked check (
        case when state = 'LOCKED'
             then num_nulls(lease_owner, lease_principal, leased_at, lease_expires_at, reap_at) = 0 and fencing_token > 0
             else num_nonnulls(lease_owner, lease_principal, leased_at, lease_expires_at, reap_at) = 0 end),
    constraint counters_are_sane check (retries >= 0 and attempts >= 0 and expirations >= 0)
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.1
);

-- The index order is the fetch order: best priority first, then whose turn comes first (the oldest, unless take_turns
-- has spread the tasks of one fairness key). -priority and not `priority desc`: so one row comparison can start a scan
-- anywhere in it (see raise_floor).
create index queue_ready on celeriac.queue (task_type, version, (-priority), turn_at, task_id) where state = 'READY';
create index queue_scheduled on celeriac.queue (run_at, task_id) where state = 'SCHEDULED';
-- Not `where state = 'LOCKED'`, though it means the same: a statement that looks for one lease by its task_id could then
-- be planned as a walk over all of them.
create index queue_reap on celeriac.queue (reap_at, task_id) where reap_at is not null;

-- Which versions of a type there are, and where a claim of each may start looking: before (floor_urgency, floor_turn_at)
-- lie only dead entries that vacuum cannot remove yet. A floor holds until floor_until, and there is none in peace.
-- walked_at: when a claim last had to walk over very many of them.
create table celeriac.stream (
    task_type     text        not null,
    version       integer     not null,
    floor_urgency integer     not null default -2147483648,
    floor_turn_at timestamptz not null default '-infinity',
    floor_until   timestamptz not null default '-infinity',
    walked_at     timestamptz not null default '-infinity',
    primary key (task_type, version)
) with (fillfactor = 50);

-- Types and versions that enqueues have brought and nobody has put into `stream` yet. Append-only: an enqueue in a long
-- transaction must not make another one wait for a unique key.
create table celeriac.new_stream (
    task_type text    not null,
    version   integer not null
);

-- When each chore last ran: what beat owes, fetches do in its stead when it is late; and people see who is late.
create table celeriac.chore (
    name   text        primary key,
    ran_at timestamptz not null
) with (fillfactor = 50);

-- For ever: a key outlives the task that it made.
create table celeriac.idempotency (
    task_type   text        not null,
    key         text        not null,
    task_id     uuid        not null,
    input_hash  bytea       not null,
    created_at  timestamptz not null,
    primary key (task_type, key)
);

-- Where the line of a fairness key stands: the turn of its last task.
create table celeriac.fair_share (
    task_type    text        not null,
    fairness_key text        not null,
    last_turn_at timestamptz not null,
    primary key (task_type, fairness_key)
) with (fillfactor = 70);

-- Append-only; only what is out of the ordinary, so a task that just works costs no row.
create table celeriac.history (
    at            timestamptz not null,
    task_id       uuid        not null,
    kind          text        not null
        check (kind in ('failed', 'lease_lost', 'released', 'suspended', 'canceled', 'redriven', 'refused')),
    fencing_token bigint,
    attempt       integer,
    started_at    timestamptz,
    worker_id     text,
    principal     text,
    detail        jsonb       not null
) partition by range (at);
create index history_of_task on celeriac.history (task_id, at);
-- Takes what falls outside the monthly partitions, so that a row is never refused for its date.
create table celeriac.history_default partition of celeriac.history default;

-- What must leave Postgres. Append-only: merging rows would lose wake-ups.
create table celeriac.outbox (
    id          bigint      generated always as identity primary key,
    channel     text        not null,
    key         text        not null,
    payload     jsonb       not null,
    due_at      timestamptz not null,
    attempts    integer     not null default 0,
    created_at  timestamptz not null,
    parked_at   timestamptz,
    error       text
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
create index outbox_due on celeriac.outbox (channel, due_at, id) where parked_at is null;
create index outbox_parked on celeriac.outbox (id) where parked_at is not null;

create table celeriac.worker (
    principal    text        not null,
    worker_id    text        not null,
    kind         text        not null check (kind in ('external', 'fleet')),
    task_types   text[]      not null,
    versions     jsonb       not null default '{}',
    details      jsonb       not null default '{}',
    started_at   timestamptz not null,
    heartbeat_at timestamptz not null,
    primary key (principal, worker_id)
) with (fillfactor = 70);

create table celeriac.api_key (
    id         uuid        primary key,
    name       text        not null,
    principal  text        not null,
    key_hash   bytea       not null unique check (octet_length(key_hash) = 32),
    verbs      text[]      not null check (verbs <@ array['work', 'enqueue', 'read', 'manage', 'admin']),
    task_types text[]      not null,
    created_at timestamptz not null,
    expires_at timestamptz,
    revoked_at timestamptz
);

-- What the last migrate loaded; the health view and `celeriac doctor` compare it with the code.
create table celeriac.installation (
    singleton     boolean     primary key default true check (singleton),
    code_hash     text        not null,
    migrated_at   timestamptz not null
);

-- One item of enqueue_tasks once it has been read.
create type celeriac.asked_task as (
    ordinal integer, task_id uuid, task_type text, version integer, priority integer, retries integer, run_at timestamptz,
    turn_at timestamptz, business_key text, idempotency_key text, fairness_key text, token_id uuid, instance_id uuid, variables jsonb, policy jsonb
);

-- One task as its worker gets it.
create type celeriac.leased_task as (
    task_id uuid, token_id uuid, instance_id uuid, task_type text, version integer, business_key text, variables jsonb,
    fencing_token bigint, lock_expires_at timestamptz, lock_duration_ms bigint, retries integer, attempt integer,
    priority integer, created_at timestamptz, payload_bytes integer, more boolean
);

-- What transitions answer with. Named types, since a function's columns may not share names with its arguments.
create type celeriac.task_state as (task_id uuid, state text);
create type celeriac.task_failure as (task_id uuid, state text, retries integer, run_at timestamptz);
create type celeriac.extended_lease as (task_id uuid, lock_expires_at timestamptz, lock_duration_ms bigint);
create type celeriac.worker_beat as (worker_id text, heartbeat_at timestamptz);
create type celeriac.revoked_key as (key_id uuid, revoked_at timestamptz);
create type celeriac.settled_outbox as (published integer, returned integer, rejected integer, parked integer);

-- A stream as fetch_tasks serves it: where its ready work begins, and how many slots it gets.
create type celeriac.served_stream as (
    task_type text, version integer, urgency integer, turn_at timestamptz, slots bigint
);

-- A ready task that pick_ready has locked.
create type celeriac.picked_task as (task_id uuid, payload_bytes integer, urgency integer, turn_at timestamptz);

-- What a worker reports of a failed attempt, and what one item of a batch is answered: a state, or a code and why.
create type celeriac.reported_failure as (error text, retry_after_ms bigint, retries integer);
create type celeriac.write_answer as (
    ordinal integer, task_id uuid, state text, retries integer, run_at timestamptz, code text, message text
);
