-- recall_waits: gives each wait that is known from before the time-out that it had then.
create or replace function celeriac.recall_waits(asked celeriac.asked_wait[], task_id uuid) returns celeriac.asked_wait[]
language plpgsql stable as $$
declare
    known celeriac.wait;
begin
    if not exists (select from celeriac.wait w where w.task_id = recall_waits.task_id) then
        return asked;
    end if;
    for place in 1 .. cardinality(asked) loop
        select w.* into known from celeriac.wait w
         where w.task_id = recall_waits.task_id and w.branch = asked[place].branch and w.ordinal = asked[place].ordinal;
        asked[place].known := found;
        if found and known.kind = asked[place].kind then
            asked[place].until := known.until;
        end if;
    end loop;
    return asked;
end $$;
