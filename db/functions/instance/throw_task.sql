-- throw_task: LOCKED -> COMPLETED, as a business error that the model may catch. Refuses: a lease that is not (or no longer) the
-- caller's, and a task that belongs to no instance. The same throw again (same worker, token and code) holds.
create or replace function celeriac.throw_task(
    task_id uuid, worker_id text, fencing_token bigint default null, error_code text default null, error_message text default null,
    variables jsonb default '{}', principal text default null, only_types text[] default null)
returns setof celeriac.ended_task
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    me text := coalesce(throw_task.principal, session_user);
    held celeriac.queue;
    owner uuid;
    token uuid;
begin
    perform celeriac.check_name(throw_task.worker_id, 'worker_id'), celeriac.check_name(throw_task.error_code, 'error_code');
    perform celeriac.read_variables(jsonb_build_object('variables', throw_task.variables), 'task');
    delete from celeriac.queue q
     where q.task_id = throw_task.task_id
       and q.state = 'LOCKED' and q.lease_expires_at > moment
       and q.lease_owner = throw_task.worker_id and q.lease_principal = me
       and q.fencing_token = coalesce(throw_task.fencing_token, q.fencing_token)
       and celeriac.may_touch(q.task_type, only_types) and not q.undoing
    returning q.* into held;
    if found then
        update celeriac.task t
           set state = 'COMPLETED', result = throw_task.variables, error = celeriac.cut_text(throw_task.error_message, 8192),
               started_at = held.leased_at, ended_at = moment, fencing_token = held.fencing_token, worker_id = held.lease_owner,
               principal = held.lease_principal, attempts = held.attempts, expirations = held.expirations
         where t.id = held.task_id
        returning t.instance_id, t.token_id into owner, token;
        if owner is null then
            perform celeriac.refuse('invalid', 'only a task of a process can throw a business error', 'task_id');
        end if;
        perform celeriac.write_history(moment, held.task_id, 'thrown', held.fencing_token, held.attempts, held.leased_at,
                    held.lease_owner, me, jsonb_build_object('code', throw_task.error_code, 'error', throw_task.error_message)),
                celeriac.free_slot(held), celeriac.conclude_task(held.task_id, held.resumed),
                celeriac.tell_owner(owner, token, 'thrown', jsonb_build_object(
                    'code', throw_task.error_code, 'message', throw_task.error_message, 'variables', throw_task.variables));
    elsif (celeriac.past_write(throw_task.task_id, 'thrown', throw_task.worker_id, throw_task.fencing_token, me, only_types)).detail ->> 'code'
          is distinct from throw_task.error_code then
        perform celeriac.refuse_write(throw_task.task_id, throw_task.worker_id, throw_task.fencing_token, me, only_types);
    end if;
    return query select throw_task.task_id, 'COMPLETED', owner;
end $$;
