-- answer_completion: what a completion is told that changed nothing: it is a repeat of one that holds, or why it is refused.
create or replace function celeriac.answer_completion(
    ordinal integer, task_id uuid, worker_id text, fencing_token bigint, result jsonb, principal text, only_types text[])
returns celeriac.write_answer
language plpgsql volatile as $$
begin
    perform from celeriac.task t
      where t.id = answer_completion.task_id and t.state = 'COMPLETED' and celeriac.may_touch(t.task_type, only_types)
        and t.worker_id = answer_completion.worker_id and t.principal = answer_completion.principal
        and t.fencing_token = coalesce(answer_completion.fencing_token, t.fencing_token)
        and t.result = answer_completion.result;
    if found then
        return (ordinal, task_id, 'COMPLETED', null, null, null, null, null)::celeriac.write_answer;
    end if;
    if exists (select from celeriac.queue q
                where q.task_id = answer_completion.task_id and q.undoing
                  and q.state = 'LOCKED' and q.lease_expires_at > celeriac.now()
                  and q.lease_owner = answer_completion.worker_id and q.lease_principal = answer_completion.principal
                  and q.fencing_token = coalesce(answer_completion.fencing_token, q.fencing_token)
                  and celeriac.may_touch(q.task_type, only_types)) then
        return (ordinal, task_id, 'LOCKED', null, null, 'invalid', 'the task is being undone; finish_undo ends it', null)::celeriac.write_answer;
    end if;
    return celeriac.answer_refused(ordinal, task_id, worker_id, fencing_token, principal, only_types);
end $$;
