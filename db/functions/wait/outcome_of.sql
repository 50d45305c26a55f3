-- outcome_of: how a task has ended, as whoever waits for it is told; null while it is open. One that was purged says so.
create or replace function celeriac.outcome_of(task_id uuid) returns jsonb
language plpgsql stable as $$
declare
    t record;
begin
    select k.state, k.result, k.error into t from celeriac.task k where k.id = outcome_of.task_id;
    if not found then
        t.state := 'PURGED';
    elsif t.state in ('OPEN', 'WAITING') then
        return null;
    end if;
    return jsonb_build_object('task_id', task_id, 'state', t.state, 'result', t.result, 'error', t.error);
end $$;
