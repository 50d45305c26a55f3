-- answer_completion: what a completion is told that changed nothing: it is a repeat of one that holds, or why it is refused.
create or replace function celeriac.answer_completion(
    task_id uuid, worker_id text, fencing_token bigint, item jsonb, principal text, only_types text[])
returns table (state text, code text, message text)
language plpgsql volatile as $$
#variable_conflict use_column
begin
    perform from celeriac.task t
      where t.id = answer_completion.task_id and t.state = 'COMPLETED' and celeriac.may_touch(t.task_type, only_types)
        and t.worker_id = answer_completion.worker_id and t.principal = answer_completion.principal
        and t.fencing_token = coalesce(answer_completion.fencing_token, t.fencing_token)
        and t.result = celeriac.read_variables(item, 'items');
    if found then
        return query select 'COMPLETED', null::text, null::text;
    else
        return query
        select case when r.code <> 'not_found' then celeriac.state_of(answer_completion.task_id) end, r.code, r.message
          from celeriac.lease_refusal(task_id, worker_id, fencing_token, principal, only_types) r;
    end if;
end $$;
