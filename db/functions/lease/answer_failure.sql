-- answer_failure: what a failure is told that changed nothing: it is a repeat of one that holds, or why it is refused.
create or replace function celeriac.answer_failure(
    ordinal integer, task_id uuid, worker_id text, fencing_token bigint, principal text, only_types text[])
returns celeriac.write_answer
language plpgsql volatile as $$
declare
    before celeriac.history := celeriac.past_write(task_id, 'failed', worker_id, fencing_token, principal, only_types);
    due_at timestamptz := (before.detail ->> 'run_at')::timestamptz;
begin
    if before.task_id is null then
        return celeriac.answer_refused(ordinal, task_id, worker_id, fencing_token, principal, only_types);
    end if;
    return (ordinal, task_id, before.detail ->> 'state', before.detail ->> 'retries', due_at, null, null, null)::celeriac.write_answer;
end $$;
