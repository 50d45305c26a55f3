-- end_completed: LOCKED -> COMPLETED, one item of complete_tasks: takes the queue row if the write may, and ends the task.
-- `interrupted`: whether its process no longer wants it; `told`: what its instance is told, if that is not the result.
create or replace function celeriac.end_completed(
    ordinal integer, task_id uuid, worker_id text, fencing_token bigint, result jsonb, principal text, only_types text[],
    interrupted boolean, told jsonb default null)
returns celeriac.write_answer
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    held celeriac.queue;
    owner record;
begin
    delete from celeriac.queue q
     where q.task_id = end_completed.task_id
       and q.state = 'LOCKED' and q.lease_expires_at > moment
       and q.lease_owner = end_completed.worker_id and q.lease_principal = end_completed.principal
       and q.fencing_token = coalesce(end_completed.fencing_token, q.fencing_token)
       and celeriac.may_touch(q.task_type, only_types) and not q.undoing and not end_completed.interrupted
    returning q.* into held;
    if not found then
        return celeriac.answer_completion(ordinal, task_id, worker_id, fencing_token, result, principal, only_types);
    end if;
    update celeriac.task t
       set state = 'COMPLETED', result = end_completed.result, started_at = held.leased_at, ended_at = moment,
           fencing_token = held.fencing_token, worker_id = held.lease_owner, principal = held.lease_principal,
           attempts = held.attempts, expirations = held.expirations
     where t.id = held.task_id
    returning t.instance_id, t.token_id into owner;
    perform celeriac.free_slot(held), celeriac.conclude_task(held.task_id, held.resumed);
    if owner.instance_id is not null then
        perform celeriac.tell_owner(owner.instance_id, owner.token_id, 'completed', coalesce(told, jsonb_build_object('variables', end_completed.result)));
    end if;
    return (ordinal, task_id, 'COMPLETED', null, null, null, null, owner.instance_id)::celeriac.write_answer;
end $$;
