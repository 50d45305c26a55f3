-- write_step: the record of one durable call: true when it is new, false when the very same stands there; else refuses.
-- Whoever calls it holds the task's queue row or its `waiting` row, so nobody else writes steps of that task.
create or replace function celeriac.write_step(
    task_id uuid, branch text, ordinal integer, kind text, name text, result jsonb, error text, fencing_token bigint,
    moment timestamptz)
returns boolean language plpgsql volatile as $$
declare
    there celeriac.step;
begin
    select s.* into there from celeriac.step s
     where s.task_id = write_step.task_id and s.branch = write_step.branch and s.ordinal = write_step.ordinal;
    if not found then
        insert into celeriac.step (task_id, recorded_at, fencing_token, ordinal, branch, kind, name, result, error)
        values (write_step.task_id, moment, write_step.fencing_token, write_step.ordinal, write_step.branch, write_step.kind,
                write_step.name, write_step.result, write_step.error);
        return true;
    end if;
    if (there.kind, there.name, there.result, there.error)
       is distinct from (write_step.kind, write_step.name, write_step.result, write_step.error) then
        perform celeriac.refuse('invalid', format('%s is recorded as %s %L with another outcome, or another name',
                celeriac.place_name(there.branch, there.ordinal), there.kind, there.name), 'steps',
            jsonb_build_object('branch', there.branch, 'ordinal', there.ordinal, 'kind', there.kind, 'name', there.name));
    end if;
    return false;
end $$;
