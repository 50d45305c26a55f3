-- answer_refused: one refused item of a batch: why, and the state that the task is in.
create or replace function celeriac.answer_refused(
    ordinal integer, task_id uuid, worker_id text, fencing_token bigint, principal text, only_types text[])
returns celeriac.write_answer
language plpgsql volatile as $$
declare
    why record;
begin
    select * into why from celeriac.lease_refusal(task_id, worker_id, fencing_token, principal, only_types);
    return (ordinal, task_id, case when why.code <> 'not_found' then celeriac.state_of(task_id) end,
            null, null, why.code, why.message, null)::celeriac.write_answer;
end $$;
