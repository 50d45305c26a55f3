-- refuse_operation: refuses a step at the place of an operation: what that has done outside must not be forgotten.
create or replace function celeriac.refuse_operation(task_id uuid, branch text, ordinal integer) returns void
language plpgsql volatile as $$
declare
    there record;
begin
    select o.name into there from celeriac.operation o
     where o.task_id = refuse_operation.task_id and o.branch = refuse_operation.branch and o.ordinal = refuse_operation.ordinal;
    if found then
        perform celeriac.refuse('invalid', format('%s is the operation %L', celeriac.place_name(branch, ordinal), there.name), 'steps',
            jsonb_build_object('branch', branch, 'ordinal', ordinal, 'kind', 'operation', 'name', there.name));
    end if;
end $$;
