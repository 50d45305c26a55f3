-- met_before: what is recorded of a wait already; all null when nothing is. Refuses a place that holds another call.
create or replace function celeriac.met_before(wanted celeriac.asked_wait, task_id uuid) returns celeriac.met_wait
language plpgsql stable as $$
declare
    there celeriac.step;
begin
    select s.* into there from celeriac.step s
     where s.task_id = met_before.task_id and s.branch = wanted.branch and s.ordinal = wanted.ordinal;
    if not found then
        return null;
    elsif (there.kind, there.name) is distinct from (wanted.kind, wanted.name) then
        perform celeriac.refuse('invalid', format('%s is recorded as %s %L', celeriac.place_name(there.branch, there.ordinal),
                there.kind, there.name), 'waits',
            jsonb_build_object('branch', there.branch, 'ordinal', there.ordinal, 'kind', there.kind, 'name', there.name));
    end if;
    return (there.branch, there.ordinal, there.kind, there.name, 'SATISFIED', there.result, there.error)::celeriac.met_wait;
end $$;
