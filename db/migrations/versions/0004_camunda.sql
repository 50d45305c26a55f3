-- The Camunda 7 face: what its rules of locks, retries and typed variables need to know beyond the native ones.

-- Who held a task last, when its lease was lost or its attempt failed: on the Camunda face that worker may still complete it
-- as long as nobody else has taken it. Null: nobody, or it was given back.
-- retries_told: somebody has said how many retries are left; until then Camunda shows none.
-- on_loss: what a lost lease costs. null: one of the lost leases that the task type allows; 'free': nothing; 'retry': one retry.
-- held_until: the time at which a task is due that stands still because its instance is suspended.
alter table celeriac.queue
    add column last_owner text,
    add column last_principal text,
    add column retries_told boolean,
    add column on_loss text check (on_loss in ('free', 'retry')),
    add column held_until timestamptz;

-- Variables keep the type that a Camunda client gave them. `info`: its valueInfo, and the text of a Json value as it came.
alter table celeriac.variable add column info jsonb;
-- Of the variables that are local to an activity: {name: {"type": …, "info": …}}.
alter table celeriac.token
    add column types jsonb,
    add column assignee text;

-- What File variables hold. A value names its file, so a copy of the variable is no copy of the file. Not compressed: read in parts.
create table celeriac.file (
    id          uuid        primary key,
    instance_id uuid,
    created_at  timestamptz not null,
    content     bytea       not null
);
alter table celeriac.file alter column content set storage external;
create index file_of_instance on celeriac.file (instance_id) where instance_id is not null;

-- Timers and subscriptions are known by an id outside, as tokens are.
alter table celeriac.event_wait add column uid uuid not null default gen_random_uuid();
alter table celeriac.event_wait alter column uid drop default;
create unique index event_wait_uid on celeriac.event_wait (uid);

alter table celeriac.deployment add column source text;
alter table celeriac.definition add column category text;

-- A fact that changes variables and moves nothing.
alter table celeriac.fact
    drop constraint fact_kind_check,
    add constraint fact_kind_check
        check (kind in ('started', 'completed', 'failed', 'thrown', 'happened', 'continued', 'stopped', 'changed'));
