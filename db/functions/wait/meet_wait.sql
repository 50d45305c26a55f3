-- meet_wait: one thing to wait for that has come already, with its step; all null when it has not.
-- What came counts more than that its time is over.
create or replace function celeriac.meet_wait(wanted celeriac.asked_wait, held celeriac.queue, moment timestamptz)
returns celeriac.met_wait
language plpgsql volatile as $$
declare
    outcome jsonb := case wanted.kind
        when 'signal' then celeriac.take_signal(held.task_id, held.task_type, wanted.topic, wanted.key, moment)
        when 'task' then celeriac.outcome_of(wanted.child_id) end;
begin
    if outcome is null and coalesce(wanted.until > moment, true) then
        return null;
    end if;
    insert into celeriac.step (task_id, recorded_at, fencing_token, ordinal, branch, kind, name, result)
    values (held.task_id, moment, held.fencing_token, wanted.ordinal, wanted.branch, wanted.kind, wanted.name, outcome);
    if wanted.known then
        delete from celeriac.wait w where w.task_id = held.task_id and w.branch = wanted.branch and w.ordinal = wanted.ordinal;
    end if;
    return (wanted.branch, wanted.ordinal, wanted.kind, wanted.name, 'SATISFIED', outcome, null)::celeriac.met_wait;
end $$;
