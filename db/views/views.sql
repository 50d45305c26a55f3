-- What people and the roles may read. The tables themselves are for the functions alone.

create view celeriac.task_list as
select t.id as task_id, t.task_type, t.version, t.business_key, coalesce(q.state, t.state) as state, t.priority,
       case when t.state = 'FAILED' then 0 else coalesce(q.retries, w.retries, t.retries) end as retries,
       coalesce(q.attempts, w.attempts, t.attempts) as attempts, coalesce(q.expirations, w.expirations, t.expirations) as expirations,
       t.redrives, t.idempotency_key, t.fairness_key, t.concurrency_key, coalesce(q.undoing, w.undoing, false) as undoing,
       coalesce(q.lease_owner, t.worker_id) as worker_id, coalesce(q.lease_principal, t.principal) as principal,
       coalesce(nullif(q.fencing_token, 0), t.fencing_token) as fencing_token, q.lease_expires_at as lock_expires_at,
       coalesce(q.held_until, q.run_at) as run_at,
       t.created_at, coalesce(q.leased_at, t.started_at) as started_at, t.ended_at, t.error
  from celeriac.task t
  left join celeriac.queue q on q.task_id = t.id
  left join celeriac.waiting w on w.task_id = t.id;

-- The same for open work only, so that a list of it starts from the queue, not from all that ever was.
create view celeriac.open_task_list as
select t.id as task_id, t.task_type, t.version, t.business_key, q.state, t.priority, q.retries, q.attempts, q.expirations,
       t.redrives, t.idempotency_key, t.fairness_key, t.concurrency_key, q.undoing, q.lease_owner as worker_id,
       q.lease_principal as principal, nullif(q.fencing_token, 0) as fencing_token, q.lease_expires_at as lock_expires_at,
       coalesce(q.held_until, q.run_at) as run_at, t.created_at, q.leased_at as started_at, t.ended_at, t.error
  from celeriac.queue q join celeriac.task t on t.id = q.task_id;

-- The same for those that wait.
create view celeriac.waiting_task_list as
select t.id as task_id, t.task_type, t.version, t.business_key, t.state, t.priority, w.retries, w.attempts, w.expirations,
       t.redrives, t.idempotency_key, t.fairness_key, t.concurrency_key, w.undoing, t.worker_id, t.principal, t.fencing_token,
       null::timestamptz as lock_expires_at, null::timestamptz as run_at, t.created_at, t.started_at, t.ended_at, t.error
  from celeriac.task t join celeriac.waiting w on w.task_id = t.id
 where t.state = 'WAITING';

-- The same for those that have ended: their state is that of their row, so that a list starts from the index on it.
create view celeriac.ended_task_list as
select t.id as task_id, t.task_type, t.version, t.business_key, t.state, t.priority,
       case when t.state = 'FAILED' then 0 else t.retries end as retries, t.attempts, t.expirations,
       t.redrives, t.idempotency_key, t.fairness_key, t.concurrency_key, false as undoing, t.worker_id, t.principal, t.fencing_token,
       null::timestamptz as lock_expires_at, null::timestamptz as run_at, t.created_at, t.started_at, t.ended_at, t.error
  from celeriac.task t
 where t.state in ('COMPLETED', 'FAILED', 'CANCELED');

create view celeriac.task_detail as
select l.*, t.variables, t.result, t.policy, t.token_id, t.instance_id
  from celeriac.task_list l join celeriac.task t on t.id = l.task_id;

create view celeriac.task_timeline as
select h.task_id, h.at, h.kind, h.fencing_token, h.attempt, h.worker_id, h.principal, h.detail from celeriac.history h;

create view celeriac.task_attempts as
select h.task_id, h.attempt, h.worker_id, h.principal, h.fencing_token, h.kind as outcome, h.detail ->> 'error' as error,
       h.started_at, h.at as ended_at
  from celeriac.history h
 where h.kind in ('failed', 'lease_lost', 'released', 'suspended') or (h.kind = 'canceled' and h.started_at is not null)
    -- An attempt that failed and so raised an incident, or ended the undo, is told once.
    or (h.kind in ('incident', 'undone')
        and not exists (select from celeriac.history f
                         where f.task_id = h.task_id and f.started_at = h.started_at and f.kind in ('failed', 'lease_lost')))
union all
select t.id, t.attempts, t.worker_id, t.principal, t.fencing_token, 'completed', null, t.started_at, t.ended_at
  from celeriac.task t where t.state = 'COMPLETED'
union all
select q.task_id, q.attempts, q.lease_owner, q.lease_principal, q.fencing_token, 'running', null, q.leased_at, null
  from celeriac.queue q where q.state = 'LOCKED';

create view celeriac.depths as
select q.task_type, q.state, count(*) as tasks from celeriac.queue q group by q.task_type, q.state
union all
select w.task_type, 'WAITING', count(*) from celeriac.waiting w group by w.task_type;

-- A look at the head of each type and version, whatever the backlog.
create view celeriac.oldest_ready as
select s.task_type, min(head.run_at) as run_at, (extract(epoch from celeriac.now() - min(head.run_at)) * 1000)::bigint as age_ms
  from (select task_type, version from celeriac.stream union select task_type, version from celeriac.new_stream) s
 cross join lateral (select q.run_at from celeriac.queue q
                      where q.task_type = s.task_type and q.version = s.version and q.state = 'READY'
                      order by -q.priority, q.turn_at, q.task_id limit 1) head
 group by s.task_type;

create view celeriac.chores as
select c.name, c.ran_at, (extract(epoch from celeriac.now() - c.ran_at) * 1000)::bigint as age_ms from celeriac.chore c;

create view celeriac.worker_list as
select w.worker_id, w.principal, w.kind, w.task_types, w.versions, w.details, w.started_at, w.heartbeat_at,
       w.heartbeat_at > celeriac.now() - interval '30 seconds' as live
  from celeriac.worker w;

create view celeriac.live_workers as select * from celeriac.worker_list where live;

create view celeriac.dead_letters as
select t.id as task_id, t.task_type, t.version, t.business_key, t.attempts, t.expirations, t.redrives, t.error, t.worker_id,
       t.created_at, t.ended_at as failed_at
  from celeriac.task t where t.state = 'FAILED';

create view celeriac.task_types as select * from celeriac.task_type;

create view celeriac.outbox_depth as
select o.channel, count(*) filter (where o.parked_at is null) as pending, count(*) filter (where o.parked_at is not null) as parked,
       min(o.due_at) filter (where o.parked_at is null) as oldest_due_at
  from celeriac.outbox o group by o.channel;

create view celeriac.parked_outbox as
select o.id, o.channel, o.key, o.payload, o.attempts, o.created_at, o.parked_at, o.error
  from celeriac.outbox o where o.parked_at is not null;

create view celeriac.api_keys as
select k.id as key_id, k.name, k.principal, k.verbs, k.task_types, k.created_at, k.expires_at, k.revoked_at from celeriac.api_key k;

create view celeriac.refusals as
select case when s.is_called then s.last_value else 0 end as total from celeriac.refused_write s;

create view celeriac.health as
select pg_is_in_recovery() as in_recovery,
       current_setting('default_transaction_read_only')::boolean or pg_is_in_recovery() as read_only,
       i.code_hash, i.migrated_at,
       celeriac.oldest_snapshot_age_ms() as oldest_snapshot_age_ms
  from celeriac.installation i;

-- What durable tasks have done, what went wrong with it, and what is or was undone.
create view celeriac.task_steps as
select s.task_id, s.branch, s.ordinal, s.kind, s.name, s.result, s.error, s.fencing_token, s.recorded_at from celeriac.step s;

create view celeriac.operations as
select o.id as operation_id, o.task_id, t.task_type, o.branch, o.ordinal, o.name, o.state, o.attempt, o.fencing_token, o.plan, s.result,
       o.error, o.started_at, o.ended_at, o.unknown_at
  from celeriac.operation o
  join celeriac.task t on t.id = o.task_id
  left join celeriac.step s on s.task_id = o.task_id and s.branch = o.branch and s.ordinal = o.ordinal;

create view celeriac.incidents as
select i.id as incident_id, i.task_id, t.task_type, i.kind, case when i.resolved_at is null then 'OPEN' else 'RESOLVED' end as state,
       i.branch, i.ordinal, i.name, i.message, i.detail, i.operation_id, i.created_at, i.resolved_at, i.resolution, i.resolved_by, i.note,
       i.instance_id, i.token_uid as token_id
  from celeriac.incident i left join celeriac.task t on t.id = i.task_id;

create view celeriac.compensations as
select c.task_id, t.task_type, c.number, c.branch, c.ordinal, c.name, c.state, c.error, c.registered_at, c.ended_at
  from celeriac.compensation c join celeriac.task t on t.id = c.task_id;

create view celeriac.sagas as
select s.task_id, t.task_type, s.cause, s.error, s.began_at, s.ended_at from celeriac.saga s join celeriac.task t on t.id = s.task_id;

-- Schedules
create view celeriac.schedules as
select s.name, s.task ->> 'task_type' as task_type, s.cron, s.every, s.time_zone, s.anchor_at, s.catch_up, s.slot_variable, s.paused,
       s.next_at, s.last_slot_at, s.last_task_id, s.fired, s.missed, s.error, s.task, s.principal, s.created_at, s.updated_at
  from celeriac.schedule s;

-- What tasks wait for. A wait that is not armed belongs to a task that goes on for the moment; its time runs on.
create view celeriac.waits as
select w.task_id, t.task_type, w.branch, w.ordinal, w.kind, w.name, w.topic, nullif(w.key, '') as key, w.until, w.child_id,
       w.incident_id, w.since, w.armed
  from celeriac.wait w join celeriac.task t on t.id = w.task_id;

create view celeriac.signals as
select s.id as signal_id, s.topic, nullif(s.key, '') as key, s.broadcast, s.dedupe_id, s.sender, s.payload, s.sent_at, s.expires_at,
       s.taken_at, s.taken_by
  from celeriac.signal s;

-- Where a concurrency limit bites: how many tasks of each key hold a slot, and how many are ready but blocked.
create view celeriac.concurrency_keys as
select k.task_type, k.key, t.concurrency, sum(k.held)::integer as held, sum(k.blocked) as blocked
  from (select s.task_type, s.key, 1 as held, 0 as blocked from celeriac.slot s
        union all
        select q.task_type, q.concurrency_key, 0, 1 from celeriac.queue q where q.state = 'BLOCKED') k
  left join celeriac.task_type t on t.name = k.task_type
 group by k.task_type, k.key, t.concurrency;

-- What the slots must never say; empty. An opening is a note to look at its key again, so what it is about is not settled yet.
create view celeriac.slot_faults as
select 'a slot of a task that nobody holds' as fault, s.task_type, s.key, s.task_id
  from celeriac.slot s left join celeriac.queue q on q.task_id = s.task_id
 where q.state is distinct from 'LOCKED'
union all
select 'a held task without a slot', q.task_type, q.concurrency_key, q.task_id
  from celeriac.queue q join celeriac.task_type t on t.name = q.task_type and t.concurrency is not null
 where q.state = 'LOCKED' and q.concurrency_key is not null
   and not exists (select from celeriac.slot s where s.task_id = q.task_id)
union all
select 'a blocked task although a slot is free', b.task_type, b.concurrency_key, null
  from (select q.task_type, q.concurrency_key, q.version, count(*) filter (where q.state = 'READY') as let_in
          from celeriac.queue q where q.concurrency_key is not null and q.state in ('READY', 'BLOCKED')
         group by q.task_type, q.concurrency_key, q.version having bool_or(q.state = 'BLOCKED')) b
  left join celeriac.task_type t on t.name = b.task_type
 where not exists (select from celeriac.opening o where o.task_type = b.task_type and o.key = b.concurrency_key)
   and coalesce(t.concurrency > b.let_in + (select count(*) from celeriac.slot s
                                             where s.task_type = b.task_type and s.key = b.concurrency_key), true);

-- Open or waiting work of a version that no live registered worker runs: it stays until one comes.
create view celeriac.stuck_versions as
select v.task_type, v.version, w.open_tasks, w.waiting_tasks, w.oldest_created_at
  from (select task_type, version from celeriac.stream union select task_type, version from celeriac.new_stream) v
 cross join lateral (
       select count(*) filter (where o.state = 'OPEN') as open_tasks, count(*) filter (where o.state = 'WAITING') as waiting_tasks,
              min(o.created_at) as oldest_created_at
         from (select t.state, t.created_at from celeriac.queue q join celeriac.task t on t.id = q.task_id
                where q.task_type = v.task_type and q.version = v.version
               union all
               select t.state, t.created_at from celeriac.waiting r join celeriac.task t on t.id = r.task_id
                where r.task_type = v.task_type and r.version = v.version) o) w
 where w.open_tasks + w.waiting_tasks > 0
   and not exists (select from celeriac.live_workers l
                    where v.task_type = any (l.task_types) and coalesce(l.versions -> v.task_type @> to_jsonb(v.version), true));

-- Processes
create view celeriac.definitions as
select d.id as definition_id, d.key, d.version, d.name, d.version_tag, d.deployment_id, d.resource, d.topics, d.startable,
       d.suspended or coalesce(d.active_from > celeriac.now(), false) as suspended, d.deployed_at
  from celeriac.definition d;

create view celeriac.camunda_definitions as
select d.id as definition_id, d.key, d.version, d.name, d.version_tag, d.category, d.description, d.deployment_id, d.resource, d.topics,
       d.suspended or coalesce(d.active_from > celeriac.now(), false) as suspended, d.deployed_at, d.startable,
       not exists (select from celeriac.definition n where n.key = d.key and n.version > d.version) as latest
  from celeriac.definition d;

create view celeriac.definition_graphs as select d.id as definition_id, d.graph from celeriac.definition d;

create view celeriac.resources as
select r.deployment_id, r.name, md5(r.deployment_id || r.name)::uuid as resource_id, r.content from celeriac.resource r;

create view celeriac.deployments as
select d.id as deployment_id, d.name, d.source, d.principal, d.deployed_at, d.report,
       array(select distinct t from celeriac.definition n cross join unnest(n.topics) t where n.deployment_id = d.id) as topics
  from celeriac.deployment d;

create view celeriac.instances as
select i.id as instance_id, i.definition_id, d.key as process_key, d.version as process_version, i.business_key, i.status, i.suspended,
       i.started_at, i.ended_at, i.outcome, i.reason, i.principal, d.topics,
       (select count(*) from celeriac.incident n where n.instance_id = i.id and n.resolved_at is null) as incidents
  from celeriac.instance i join celeriac.definition d on d.id = i.definition_id;

create view celeriac.instance_tokens as
select t.instance_id, t.id as number, t.uid as token_id, t.node, s.node as scope, t.scope as scope_number, t.phase, t.stuck,
       t.undoes is not null as undoing, t.entered_at
  from celeriac.token t join celeriac.scope s on s.instance_id = t.instance_id and s.id = t.scope;

create view celeriac.instance_scopes as
select s.instance_id, s.id as number, s.parent, s.node, s.ended, t.uid as host_id
  from celeriac.scope s left join celeriac.token t on t.instance_id = s.instance_id and t.id = s.host;

create view celeriac.instance_variables as
select v.instance_id, v.scope as scope_number, s.node as scope, s.parent is null as root, v.name, v.type, v.info, v.value
  from celeriac.variable v join celeriac.scope s on s.instance_id = v.instance_id and s.id = v.scope;

-- Variables as Camunda lists them: those of scopes, and those that are local to an activity. `type_name` is what is shown.
-- Scopes and tokens of an instance share their numbers, so one of them and a name are an id. Few tokens have any: without saying so,
-- plans would expect a hundred each.
create view celeriac.variable_instances as
select a.instance_id || ':' || a.place || ':' || a.name as variable_id, a.instance_id, coalesce(h.uid, a.instance_id) as execution_id, h.node,
       a.name, a.type, a.info, a.value,
       coalesce(a.type, case jsonb_typeof(a.value)
           when 'string' then 'String' when 'boolean' then 'Boolean' when 'null' then 'Null'
           when 'number' then case when a.value::text ~ '[.]' then 'Double'
                                   when (a.value)::numeric between -2147483648 and 2147483647 then 'Integer'
                                   when (a.value)::numeric between -9223372036854775808 and 9223372036854775807 then 'Long'
                                   else 'Object' end
           else 'Object' end) as type_name,
       i.definition_id, d.key as process_key, d.version as process_version, i.started_at, i.ended_at, d.topics
  from (select v.instance_id, v.scope as place, v.name, v.type, v.info, v.value from celeriac.variable v
        union all
        select t.instance_id, t.id, e.key, t.types -> e.key ->> 'type', t.types -> e.key -> 'info', e.value
          from celeriac.token t cross join jsonb_each(t.variables) e where t.variables <> '{}') a
  join celeriac.instance i on i.id = a.instance_id
  join celeriac.definition d on d.id = i.definition_id
  left join celeriac.scope s on s.instance_id = a.instance_id and s.id = a.place
  left join celeriac.token h on h.instance_id = a.instance_id and h.id = case when s.id is null then a.place else s.host end;

create view celeriac.instance_waits as
select w.instance_id, w.id as number, t.uid as token_id, w.node, w.kind, w.name, w.due_at, w.timing, w.fired, w.opened_at
  from celeriac.event_wait w join celeriac.token t on t.instance_id = w.instance_id and t.id = w.token;

create view celeriac.instance_undos as
select u.instance_id, u.id as number, u.activity, u.handler, u.used from celeriac.undo u;

create view celeriac.instance_timeline as
select h.instance_id, h.number, h.at, h.token, h.what, h.node, h.token_uid as token_id,
       (select k.id from celeriac.task k where k.token_id = h.token_uid order by k.id desc limit 1) as task_id,
       case when h.what = 'left' then
           (select k.worker_id from celeriac.task k where k.token_id = h.token_uid order by k.id desc limit 1) end as worker_id
  from celeriac.instance_history h;

-- Instances that run, as Camunda lists them.
create view celeriac.open_instances as
select i.id as instance_id, i.definition_id, d.key as process_key, d.version as process_version, d.deployment_id, i.business_key, i.suspended,
       i.ended_at, d.topics
  from celeriac.instance i join celeriac.definition d on d.id = i.definition_id
 where i.ended_at is null;

-- What Camunda calls executions: an instance itself, and its tokens.
create view celeriac.camunda_executions as
select i.id as execution_id, i.id as instance_id, null::text as node, i.definition_id, d.key as process_key, i.business_key, i.suspended, d.topics
  from celeriac.instance i join celeriac.definition d on d.id = i.definition_id
 where i.ended_at is null
union all
select t.uid, t.instance_id, t.node, i.definition_id, d.key, i.business_key, i.suspended, d.topics
  from celeriac.token t
  join celeriac.instance i on i.id = t.instance_id
  join celeriac.definition d on d.id = i.definition_id;

-- What waits for messages and signals: tokens, and start events of the newest versions.
create view celeriac.camunda_event_subscriptions as
select w.uid as subscription_id, w.kind, w.name, t.uid as token_id, w.instance_id, w.node, w.opened_at, d.topics
  from celeriac.event_wait w
  join celeriac.token t on t.instance_id = w.instance_id and t.id = w.token
  join celeriac.instance i on i.id = w.instance_id
  join celeriac.definition d on d.id = i.definition_id
 where w.kind in ('message', 'signal')
union all
select md5(w.definition_id || ':' || w.node)::uuid, w.kind, w.name, null, null, w.node, w.opened_at, d.topics
  from celeriac.start_wait w join celeriac.definition d on d.id = w.definition_id
 where w.kind in ('message', 'signal');

-- What Camunda calls jobs: timers, those that a process begins with, and tokens that go on by themselves or would if they could.
create view celeriac.camunda_jobs as
select w.uid as job_id, 'timer' as kind, i.id as instance_id, t.uid as token_id, w.node, i.definition_id, d.key as process_key,
       d.version as process_version, w.due_at, w.timing, w.fired, false as stuck, null::text as message, null::uuid as incident_id, w.opened_at as created_at, i.suspended, d.topics
  from celeriac.event_wait w
  join celeriac.token t on t.instance_id = w.instance_id and t.id = w.token
  join celeriac.instance i on i.id = w.instance_id
  join celeriac.definition d on d.id = i.definition_id
 where w.kind = 'timer' and w.due_at is not null
union all
select t.uid, 'message', i.id, t.uid, t.node, i.definition_id, d.key, d.version, null, null, 0, t.stuck, n.message, n.id,
       coalesce(n.created_at, t.entered_at), i.suspended, d.topics
  from celeriac.token t
  join celeriac.instance i on i.id = t.instance_id
  join celeriac.definition d on d.id = i.definition_id
  left join celeriac.incident n on n.instance_id = t.instance_id and n.token_uid = t.uid and n.resolved_at is null
 where (t.stuck or t.phase in ('ENTERING', 'LEAVING')) and (t.phase <> 'STANDING' or n.kind <> 'failed')
union all
select md5(w.definition_id || ':' || w.node)::uuid, 'timer', null, null, w.node, w.definition_id, d.key, d.version, w.due_at, w.timing, w.fired, false,
       null, null, w.opened_at, d.suspended, d.topics
  from celeriac.start_wait w join celeriac.definition d on d.id = w.definition_id
 where w.kind = 'timer' and w.due_at is not null;

-- Tokens on user tasks.
create view celeriac.camunda_user_tasks as
select t.uid as token_id, t.instance_id, t.node, t.entered_at as created_at, t.assignee, t.duty ->> 'name' as name,
       t.duty ->> 'description' as description, t.duty ->> 'owner' as owner, coalesce((t.duty ->> 'priority')::integer, 50) as priority,
       (t.duty ->> 'due')::timestamptz as due_at, (t.duty ->> 'follow_up')::timestamptz as follow_up_at, t.duty ->> 'form_key' as form_key,
       (t.duty ->> 'changed_at')::timestamptz as changed_at, coalesce(t.duty -> 'candidate_users', '[]') as candidate_users,
       coalesce(t.duty -> 'candidate_groups', '[]') as candidate_groups, i.definition_id, i.business_key, i.suspended,
       d.key as process_key, d.name as process_name, d.version as process_version, d.topics
  from celeriac.token t
  join celeriac.instance i on i.id = t.instance_id
  join celeriac.definition d on d.id = i.definition_id
 where t.duty is not null and t.phase = 'STANDING';

-- Instances as Camunda's history has them, open ones too.
create view celeriac.camunda_instance_history as
select i.id as instance_id, i.business_key, i.definition_id, d.key as process_key, d.name as process_name, d.version as process_version,
       i.started_at, i.ended_at, (extract(epoch from date_trunc('milliseconds', i.ended_at) - date_trunc('milliseconds', i.started_at)) * 1000)::bigint
       as duration_ms, i.principal, i.reason, i.suspended, d.topics,
       case i.status when 'COMPLETED' then 'COMPLETED' when 'CANCELED' then 'EXTERNALLY_TERMINATED'
                     when 'FAILED_COMPENSATED' then 'INTERNALLY_TERMINATED'
                     else case when i.suspended then 'SUSPENDED' else 'ACTIVE' end end as state,
       (select h.node from celeriac.instance_history h where h.instance_id = i.id and h.what = 'entered' order by h.number limit 1) as start_node
  from celeriac.instance i join celeriac.definition d on d.id = i.definition_id;

-- Visits of tokens to elements, but for link events. One that came and went within an advance was no token of the database: it has an id made of its
-- number. Those that have ended without a line of their own waited at a join for the one that went on, or at a gateway for an event.
create view celeriac.camunda_activities as
select v.number, coalesce(v.token_id, md5(v.instance_id || ':' || v.token)::uuid) as visit_id, v.instance_id, v.token, v.token_id, v.node,
       v.host, v.started_at, v.ended_at,
       (extract(epoch from date_trunc('milliseconds', v.ended_at) - date_trunc('milliseconds', v.started_at)) * 1000)::bigint as duration_ms,
       v.canceled, v.assignee, i.definition_id, d.key as process_key, d.version as process_version, d.topics
  from (select h.*, coalesce(h.last_at, case
                   when h.token_id is null then h.started_at
                   when t.uid is null then coalesce(
                       (select min(l.at) from celeriac.instance_history l
                         where l.instance_id = h.instance_id and l.number > h.number and l.node = h.node and l.what = 'left'),
                       (select max(l.at) from celeriac.instance_history l where l.instance_id = h.instance_id and l.token = h.token))
                   end) as ended_at,
               coalesce(h.person, t.assignee) as assignee
          from (select l.instance_id, l.token, l.node, min(l.number) as number, min(l.at) as started_at,
                       max(l.token_uid::text)::uuid as token_id, max(l.host) as host, max(l.assignee) as person,
                       max(l.at) filter (where l.what in ('left', 'canceled')) as last_at,
                       coalesce(bool_or(l.what = 'canceled') and not bool_or(l.what = 'left'), false) as canceled
                  from celeriac.instance_history l where l.what in ('entered', 'left', 'canceled')
                 group by l.instance_id, l.token, l.node) h
          left join celeriac.token t on t.uid = h.token_id) v
  join celeriac.instance i on i.id = v.instance_id
  join celeriac.definition d on d.id = i.definition_id
 where v.node <> all (d.passages);

-- Incidents of instances, open and resolved, as Camunda's history has them. `configuration`: the external task, or the job.
create view celeriac.camunda_incidents as
select n.id as incident_id, n.instance_id, n.token_uid as token_id, n.name as node, n.message, n.created_at, n.resolved_at,
       n.resolved_at is null as open, coalesce(n.resolution = 'the instance ended', false) as deleted,
       case when n.kind = 'failed' and n.task_id is not null then 'failedExternalTask' else 'failedJob' end as type,
       case when n.kind = 'failed' and n.task_id is not null then n.task_id else n.token_uid end as configuration,
       i.definition_id, d.key as process_key, d.version as process_version, d.topics
  from celeriac.incident n
  join celeriac.instance i on i.id = n.instance_id
  join celeriac.definition d on d.id = i.definition_id;

-- Tasks as the Camunda face knows them: those that are open, and those that have FAILED with their token still standing on them.
-- worker_id: who holds it, or held it last and may still end it. lock_expires_at: when its lock or its rest ends.
create view celeriac.open_external_tasks as
select t.id, t.task_type as topic, coalesce(q.lease_owner, q.last_owner) as worker_id,
       coalesce(q.lease_expires_at, q.last_until, case when q.state = 'SCHEDULED' and q.held_until is null then q.run_at end) as lock_expires_at,
       q.retries, coalesce(q.retries_told, false) as retries_told, q.priority, t.created_at, i.business_key, coalesce(i.suspended, false) as suspended,
       t.token_id, k.instance_id, i.definition_id, d.key as process_key, d.version as process_version, d.version_tag, k.node,
       coalesce(d.topics, array[t.task_type]) as topics, t.task_type, q.attempts as attempt, q.state
  from celeriac.queue q
  join celeriac.task t on t.id = q.task_id
  left join celeriac.token k on k.uid = t.token_id
  left join celeriac.instance i on i.id = k.instance_id
  left join celeriac.definition d on d.id = i.definition_id;

create view celeriac.failed_external_tasks as
select t.id, t.task_type as topic, t.worker_id, t.ended_at as lock_expires_at, 0 as retries, true as retries_told, t.priority, t.created_at,
       i.business_key, i.suspended, t.token_id, k.instance_id, i.definition_id, d.key as process_key, d.version as process_version, d.version_tag,
       k.node, d.topics, t.task_type, t.attempts as attempt, t.state
  from celeriac.task t
  join celeriac.token k on k.uid = t.token_id
  join celeriac.instance i on i.id = k.instance_id
  join celeriac.definition d on d.id = i.definition_id
 where t.state = 'FAILED';

create view celeriac.external_tasks as
select * from celeriac.open_external_tasks union all select * from celeriac.failed_external_tasks;

-- What Camunda's history says of external tasks: that one came to be, failed, was completed, or went without being completed. A
-- completion with a business error is no success to Camunda, and retries that a person sets are no failure.
create view celeriac.camunda_external_task_log as
select t.id || ':' || l.kind || ':' || (extract(epoch from l.at) * 1000000)::bigint as log_id, l.at, l.kind, t.id as task_id, t.task_type as topic,
       l.worker_id, t.priority, l.message, l.details,
       case l.kind when 'failed' then l.retries when 'created' then null else
           (select (h.detail ->> 'retries')::integer from celeriac.history h
             where h.task_id = t.id and h.kind in ('failed', 'redriven') order by h.at desc limit 1) end as retries,
       t.token_id, t.instance_id, i.definition_id, d.key as process_key, d.version as process_version,
       coalesce(d.topics, array[t.task_type]) as topics,
       (select h.node from celeriac.instance_history h where h.instance_id = t.instance_id and h.token_uid = t.token_id limit 1) as node
  from celeriac.task t
 cross join lateral (
       select 'created' as kind, t.created_at as at, null as worker_id, null::integer as retries, null as message, null as details
       union all
       select 'failed', h.at, h.worker_id, (h.detail ->> 'retries')::integer, nullif(left(h.detail ->> 'error', 666), ''), h.detail ->> 'details'
         from celeriac.history h where h.task_id = t.id and h.kind = 'failed' and not h.detail ? 'given_up'
       union all
       select 'completed', t.ended_at, t.worker_id, null, null, null
        where t.state = 'COMPLETED' and not exists (select from celeriac.history h where h.task_id = t.id and h.kind = 'thrown')
       union all
       select 'deleted', h.at, h.worker_id, null, null, null
         from celeriac.history h where h.task_id = t.id and h.kind in ('thrown', 'canceled')
       union all
       select 'deleted', h.at, t.worker_id, null, null, null
         from celeriac.instance_history h
        where t.state = 'FAILED' and h.instance_id = t.instance_id and h.token_uid = t.token_id and h.what = 'canceled') l
  left join celeriac.instance i on i.id = t.instance_id
  left join celeriac.definition d on d.id = i.definition_id;
