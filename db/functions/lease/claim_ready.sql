-- claim_ready: READY -> LOCKED, for one stream: the rows of fetch_tasks.
-- Locks and takes at most `want` rows; those that `room` bytes cannot hold stay as they are, but the first always fits,
-- so that no big task can block the ones behind it. Every claim draws a new fencing token.
create or replace function celeriac.claim_ready(
    task_type text, version integer, want bigint, worker_id text, principal text, lock_duration_ms bigint, room bigint, first boolean)
returns setof celeriac.leased_task
language plpgsql volatile as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
begin
    return query
    with picked as materialized (
        select q.task_id, q.payload_bytes
          from celeriac.queue q
         where q.task_type = claim_ready.task_type and q.version = claim_ready.version and q.state = 'READY'
         order by q.priority desc, q.turn_at, q.task_id
         limit want
           for update skip locked
    ), measured as materialized (
        select p.task_id, count(*) over all_before as place, sum(p.payload_bytes) over all_before as bytes
          from picked p window all_before as (rows unbounded preceding)
    ), fitting as materialized (
        select m.task_id from measured m where m.bytes <= room or (m.place = 1 and first)
    ), claimed as (
        update celeriac.queue q
           set state = 'LOCKED', fencing_token = nextval('celeriac.fencing_token'), attempts = q.attempts + 1,
               lease_owner = claim_ready.worker_id, lease_principal = claim_ready.principal,
               leased_at = moment, lease_expires_at = moment + l.lease, reap_at = moment + l.lease
          from fitting f
          join celeriac.task t on t.id = f.task_id
         cross join lateral celeriac.lease_of(t.task_type, t.policy, claim_ready.lock_duration_ms) l
         where q.task_id = f.task_id
        returning q.task_id, t.token_id, t.instance_id, q.task_type, q.version, t.business_key, t.variables, q.fencing_token,
                  q.lease_expires_at, l.lease_ms, q.retries, q.attempts, q.priority, t.created_at, q.payload_bytes
    )
    select c.*, (select count(*) from fitting) < (select count(*) from picked) from claimed c;
end $$;
