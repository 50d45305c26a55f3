-- answer_failure: what a failure is told that changed nothing: it is a repeat of one that holds, or why it is refused.
create or replace function celeriac.answer_failure(
    task_id uuid, worker_id text, fencing_token bigint, principal text, only_types text[])
returns table (state text, retries integer, run_at timestamptz, code text, message text)
language plpgsql volatile as $$
#variable_conflict use_column
declare
    before celeriac.history := celeriac.past_write(task_id, 'failed', worker_id, fencing_token, principal, only_types);
begin
    if before.task_id is not null then
        return query
        select case when before.detail ->> 'retries' = '0' then 'FAILED'
                    when (before.detail ->> 'run_at')::timestamptz > before.at then 'SCHEDULED' else 'READY' end,
               (before.detail ->> 'retries')::integer,
               case when before.detail ->> 'retries' <> '0' then (before.detail ->> 'run_at')::timestamptz end,
               null::text, null::text;
    else
        return query
        select case when r.code <> 'not_found' then celeriac.state_of(answer_failure.task_id) end, null::integer,
               null::timestamptz, r.code, r.message
          from celeriac.lease_refusal(task_id, worker_id, fencing_token, principal, only_types) r;
    end if;
end $$;
