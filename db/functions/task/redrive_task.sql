-- redrive_task: FAILED -> READY, with a new fencing token and fresh counters; the failure stays in the timeline.
-- It goes on from its recorded steps; but one that was undone begins anew. That of a process resolves its incident. Refuses
-- (already_ended): a task that is not FAILED, and one that its process no longer wants (it was undone, interrupted or has ended).
create or replace function celeriac.redrive_task(
    task_id uuid, retries integer default null, principal text default null, only_types text[] default null)
returns setof celeriac.task_state
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    was celeriac.task;
    undone boolean;
begin
    if redrive_task.retries is not null then
        perform celeriac.check_range(redrive_task.retries, 1, 2147483647, 'retries');
    end if;
    -- The row of the instance first, as everywhere: whether it is suspended must not change meanwhile.
    perform from celeriac.instance i
      where i.id = (select t.instance_id from celeriac.task t where t.id = redrive_task.task_id) for share;
    select t.* into was from celeriac.task t where t.id = redrive_task.task_id for update;
    if not found or not celeriac.may_touch(was.task_type, only_types) then
        perform celeriac.refuse('not_found', 'there is no such task');
    elsif was.state <> 'FAILED' then
        perform celeriac.refuse('already_ended', format('the task is %s; only a FAILED one can be redriven',
                                                        celeriac.state_of(redrive_task.task_id)));
    elsif not celeriac.is_wanted(was) then
        perform celeriac.refuse('already_ended', 'the process no longer wants this task');
    end if;
    undone := exists (select from celeriac.saga s where s.task_id = was.id and s.ended_at is not null);
    update celeriac.task t
       set state = 'OPEN', lives = t.lives + undone::integer, error = null, started_at = null, ended_at = null, worker_id = null, principal = null,
           fencing_token = null, attempts = 0, expirations = 0, redrives = t.redrives + 1
     where t.id = was.id;
    if undone then
        perform celeriac.forget_steps(was.id);
    end if;
    insert into celeriac.queue (task_id, fencing_token, run_at, turn_at, version, priority, retries, payload_bytes, state, task_type,
                                resumed, concurrency_key, retries_told)
    values (was.id, nextval('celeriac.fencing_token'), moment, moment, was.version, was.priority,
            coalesce(redrive_task.retries, was.retries), octet_length(was.variables::text), 'READY', was.task_type,
            not undone, was.concurrency_key, redrive_task.retries is not null);
    perform celeriac.keep_still(was.id);
    if exists (select from celeriac.token k where k.uid = was.token_id and k.stuck)
       or exists (select from celeriac.fact f where f.instance_id = was.instance_id and f.token_uid = was.token_id and f.kind = 'failed') then
        perform celeriac.work_again(was.instance_id, was.token_id, coalesce(redrive_task.principal, session_user));
    end if;
    perform celeriac.write_history(moment, was.id, 'redriven', was.fencing_token, was.attempts, was.started_at, was.worker_id,
                coalesce(redrive_task.principal, session_user), jsonb_build_object('error', was.error, 'failed_at', was.ended_at)
                || case when redrive_task.retries is null then '{}' else jsonb_build_object('retries', redrive_task.retries) end),
            celeriac.ring(array[was.task_type]);
    return query select was.id, celeriac.state_of(was.id);
end $$;
