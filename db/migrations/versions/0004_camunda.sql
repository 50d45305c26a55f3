-- The Camunda 7 face: what its rules of locks, retries and typed variables need to know beyond the native ones.

-- Who held a task last, when its lease was lost or its attempt failed: on the Camunda face that worker may still complete it
-- as long as nobody else has taken it. Null: nobody, or it was given back.
-- retries_told: somebody has said how many retries are left; until then Camunda shows none.
-- on_loss: what a lost lease costs. null: one of the lost leases that the task type allows; 'free': nothing; 'retry': one retry.
-- last_until: when that worker's lock ended, or when its failed attempt has rested: until then Camunda shows the task as locked.
-- held_until: the time at which a task is due that stands still because its instance is suspended.
alter table celeriac.queue
    add column last_owner text,
    add column last_principal text,
    add column last_until timestamptz,
    add column retries_told boolean,
    add column on_loss text check (on_loss in ('free', 'retry')),
    add column held_until timestamptz,
    add constraint last_when_not_locked check (num_nulls(last_owner, last_principal, last_until) = case when state = 'LOCKED' then 3
                                                    when last_owner is null then 3 else 0 end),
    add constraint held_is_never_due check (held_until is null or (state = 'SCHEDULED' and run_at = 'infinity'));

-- chosen: the tasks that a claim may take, where a worker asks for more than a type; null: the best ones.
alter type celeriac.served_stream add attribute chosen uuid[];
-- What a failure on the Camunda face says beside the rest. undo: whether an instance may roll back for it.
alter type celeriac.reported_failure add attribute details text, add attribute undo boolean;
create type celeriac.changed_task as (task_id uuid, state text, task_type text, instance_id uuid);
drop function if exists celeriac.claim_tasks(text, text[], integer, bigint, jsonb, bigint, text);
drop function if exists celeriac.claim_ready(celeriac.served_stream, text, text, bigint, bigint, boolean);
drop function if exists celeriac.bury_task(celeriac.queue, text, timestamptz);
drop function if exists celeriac.fail_for_good(celeriac.queue, text, timestamptz);
drop function if exists celeriac.end_completed(integer, uuid, text, bigint, jsonb, text, text[]);

-- Variables keep the type that a Camunda client gave them. `info`: its valueInfo, and the text of a Json value as it came.
alter table celeriac.variable add column info jsonb;
-- types: of the variables that are local to an activity: {name: {"type": …, "info": …}}.
-- duty: of a user task, what people are shown of it: {name, description, priority, due, follow_up, candidate_users,
-- candidate_groups, owner, form_key, changed_at}, each only where there is something.
alter table celeriac.token
    add column types jsonb,
    add column assignee text,
    add column duty jsonb;
update celeriac.token t set duty = jsonb_strip_nulls(jsonb_build_object('name', n -> 'name'))
  from celeriac.instance i join celeriac.definition d on d.id = i.definition_id
 cross join lateral jsonb_array_elements(d.graph -> 'nodes') n
 where i.id = t.instance_id and n ->> 'id' = t.node and n ->> 'kind' = 'user' and t.phase = 'STANDING';
create index token_of_person on celeriac.token (assignee, uid) where duty is not null;
-- Work that needs a person, in the order in which Camunda's clients are shown it.
create index task_failed on celeriac.task ((-priority), created_at, id) where state = 'FAILED' and token_id is not null;
-- Tokens that go on by themselves, or would if they could: what Camunda calls jobs.
create index token_job on celeriac.token (instance_id) where stuck or phase in ('ENTERING', 'LEAVING');

-- host: the token that the subprocess around it was. assignee: whose work it was.
alter table celeriac.instance_history
    add column host integer,
    add column assignee text;

-- What File variables hold. A value names its file, so a copy of the variable is no copy of the file. Not compressed: read in parts.
-- Kept as long as an instance has it (a signal may bring it to many); one that came to no instance goes after a while.
create table celeriac.file (
    id         uuid        primary key,
    created_at timestamptz not null,
    used       boolean     not null default false,
    content    bytea       not null
);
alter table celeriac.file alter column content set storage external;
create index file_unused on celeriac.file (created_at) where not used;
create table celeriac.file_use (
    instance_id uuid not null,
    file_id     uuid not null references celeriac.file (id) on delete cascade,
    primary key (instance_id, file_id)
);
create index file_use_of_file on celeriac.file_use (file_id);

-- They take types of variables now.
drop function if exists celeriac.throw_event(text, text, jsonb, text, jsonb, boolean, uuid, bigint, text, text[]);
drop function if exists celeriac.complete_token(uuid, jsonb, boolean, text);
drop function if exists celeriac.set_variables(uuid, jsonb, text[], jsonb, text);
-- And whether what has ended meanwhile is passed over.
drop function if exists celeriac.suspend_instance(uuid, boolean, text);
drop function if exists celeriac.stop_instance(uuid, text, boolean, text);
drop function if exists celeriac.delete_instance(uuid, text);
drop function if exists celeriac.hold_external(uuid, text[]);
drop function if exists celeriac.set_external_task_retries(uuid[], integer, text, text[]);

-- Timers and subscriptions are known by an id outside, as tokens are.
alter table celeriac.event_wait add column uid uuid not null default gen_random_uuid();
alter table celeriac.event_wait alter column uid drop default;
create unique index event_wait_uid on celeriac.event_wait (uid);

-- A message reaches a token, also where several of one instance wait for it.
alter type celeriac.fitting_wait add attribute token_id uuid;
alter type celeriac.reached_instance add attribute token_id uuid;
drop function if exists celeriac.fitting_waits(text, text, text, jsonb, uuid, text[]);

-- active_from: until then a definition is as good as suspended. passages: link events, which are but a way to draw a flow.
alter table celeriac.deployment
    add column source text,
    alter column name drop not null;
create index deployment_name on celeriac.deployment (name, id) where name is not null;
alter table celeriac.definition
    add column category text,
    add column description text,
    add column active_from timestamptz,
    add column passages text[] not null default '{}';
drop function if exists celeriac.deploy_models(text, jsonb, jsonb, jsonb, text);
drop function if exists celeriac.start_instance(uuid, jsonb, text, text, text, text);

-- A fact that changes variables and moves nothing.
alter table celeriac.fact
    drop constraint fact_kind_check,
    add constraint fact_kind_check
        check (kind in ('started', 'completed', 'failed', 'thrown', 'happened', 'continued', 'stopped', 'changed'));
