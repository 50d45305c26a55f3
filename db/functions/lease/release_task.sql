-- release_task: LOCKED -> READY, the attempt given back: a worker that stops has not failed. Who was at a task that was canceled
-- and is to be undone says by it that they have stopped (let_go).
-- Refuses: a lease that is another's, expired, taken away or ended. The same release again (same worker and token) holds.
create or replace function celeriac.release_task(
    task_id uuid, worker_id text, fencing_token bigint default null, principal text default null, only_types text[] default null)
returns setof celeriac.task_state
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    me text := coalesce(release_task.principal, session_user);
    held celeriac.queue;
begin
    perform celeriac.check_name(release_task.worker_id, 'worker_id');
    select q.* into held
      from celeriac.queue q
     where q.task_id = release_task.task_id
       and q.state = 'LOCKED' and q.lease_expires_at > moment
       and q.lease_owner = release_task.worker_id and q.lease_principal = me
       and q.fencing_token = coalesce(release_task.fencing_token, q.fencing_token)
       and celeriac.may_touch(q.task_type, only_types)
       for update;
    if found then
        perform celeriac.give_back(held, moment), celeriac.ring(array[held.task_type]);
    elsif celeriac.let_go(release_task.task_id, release_task.worker_id, release_task.fencing_token, me, only_types) then
        null;  -- it was canceled meanwhile
    elsif (celeriac.past_write(release_task.task_id, 'released', release_task.worker_id, release_task.fencing_token, me, only_types)).task_id is null then
        perform celeriac.refuse_write(release_task.task_id, release_task.worker_id, release_task.fencing_token, me, only_types);
    end if;
    return query select release_task.task_id, 'READY';
end $$;
