-- take_over: READY | SCHEDULED | BLOCKED | LOCKED but expired -> LOCKED, under a new fencing token, for one worker by name. `anew`: by
-- another worker than before, so that it is an attempt more.
create or replace function celeriac.take_over(
    held celeriac.queue, worker_id text, principal text, lease_ms bigint, moment timestamptz, anew boolean)
returns celeriac.queue
language plpgsql volatile as $$
#variable_conflict use_column
declare
    ends_at timestamptz := moment + lease_ms * interval '1 millisecond';
    taken celeriac.queue;
begin
    update celeriac.queue q
       set state = 'LOCKED', fencing_token = nextval('celeriac.fencing_token'), attempts = q.attempts + anew::integer,
           run_at = coalesce(q.held_until, q.run_at), held_until = null,
           lease_owner = take_over.worker_id, lease_principal = take_over.principal,
           leased_at = case when anew then moment else coalesce(q.leased_at, moment) end, lease_expires_at = ends_at, reap_at = ends_at,
           last_owner = null, last_principal = null, last_until = null, on_loss = null
     where q.task_id = held.task_id
    returning q.* into taken;
    return taken;
end $$;
