-- end_thrown: LOCKED -> COMPLETED, the inside of throw_task: takes the queue row if the write may; all null when it may not.
-- `interrupted`: whether its process no longer wants it; `told`: what the instance is told of the variables, if that is not the result.
create or replace function celeriac.end_thrown(
    task_id uuid, worker_id text, fencing_token bigint, error_code text, error_message text, result jsonb, principal text, only_types text[],
    interrupted boolean, told jsonb default null)
returns celeriac.ended_task
language plpgsql volatile as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    said text := celeriac.cut_text(end_thrown.error_message, 8192);
    held celeriac.queue;
    owner record;
begin
    delete from celeriac.queue q
     where q.task_id = end_thrown.task_id
       and q.state = 'LOCKED' and q.lease_expires_at > moment
       and q.lease_owner = end_thrown.worker_id and q.lease_principal = end_thrown.principal
       and q.fencing_token = coalesce(end_thrown.fencing_token, q.fencing_token)
       and celeriac.may_touch(q.task_type, only_types) and not q.undoing and not end_thrown.interrupted
    returning q.* into held;
    if not found then
        return null;
    end if;
    update celeriac.task t
       set state = 'COMPLETED', result = end_thrown.result, error = said,
           started_at = held.leased_at, ended_at = moment, fencing_token = held.fencing_token, worker_id = held.lease_owner,
           principal = held.lease_principal, attempts = held.attempts, expirations = held.expirations
     where t.id = held.task_id
    returning t.instance_id, t.token_id into owner;
    if owner.instance_id is null then
        perform celeriac.refuse('invalid', 'only a task of a process can throw a business error', 'task_id');
    end if;
    perform celeriac.write_history(moment, held.task_id, 'thrown', held.fencing_token, held.attempts, held.leased_at,
                held.lease_owner, held.lease_principal,
                jsonb_build_object('code', end_thrown.error_code, 'error', said)),
            celeriac.free_slot(held), celeriac.conclude_task(held.task_id, held.resumed),
            celeriac.tell_owner(owner.instance_id, owner.token_id, 'thrown',
                jsonb_build_object('code', end_thrown.error_code, 'message', said)
                || coalesce(told, jsonb_build_object('variables', end_thrown.result)));
    return (held.task_id, 'COMPLETED', owner.instance_id)::celeriac.ended_task;
end $$;
