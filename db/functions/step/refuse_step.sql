-- refuse_step: refuses an operation at a place where another call is recorded.
create or replace function celeriac.refuse_step(task_id uuid, branch text, ordinal integer) returns void
language plpgsql volatile as $$
declare
    there record;
begin
    select s.kind, s.name into there from celeriac.step s
     where s.task_id = refuse_step.task_id and s.branch = refuse_step.branch and s.ordinal = refuse_step.ordinal;
    if found then
        perform celeriac.refuse('invalid', format('%s is recorded as %s %L', celeriac.place_name(branch, ordinal), there.kind, there.name),
            'ordinal', jsonb_build_object('branch', branch, 'ordinal', ordinal, 'kind', there.kind, 'name', there.name));
    end if;
end $$;
