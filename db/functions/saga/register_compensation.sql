-- register_compensation: what must be undone if the task fails for good, written down before its step begins.
-- Refuses: a lease that is not held; a task that is being undone. The same place again is answered with the same number.
create or replace function celeriac.register_compensation(
    task_id uuid, worker_id text, fencing_token bigint, branch text, ordinal integer, name text)
returns table (number integer)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    there celeriac.compensation;
begin
    perform celeriac.check_name(register_compensation.worker_id, 'worker_id'), celeriac.check_name(register_compensation.name, 'name'),
            celeriac.check_place(register_compensation.branch, register_compensation.ordinal),
            celeriac.hold_onward(register_compensation.task_id, register_compensation.worker_id, register_compensation.fencing_token);
    select c.* into there from celeriac.compensation c
     where c.task_id = register_compensation.task_id and c.branch = register_compensation.branch
       and c.ordinal = register_compensation.ordinal;
    if found and there.name <> register_compensation.name then
        perform celeriac.refuse('invalid', format('%s is registered as %L', celeriac.place_name(there.branch, there.ordinal), there.name),
            'name', jsonb_build_object('branch', there.branch, 'ordinal', there.ordinal, 'name', there.name));
    elsif found then
        number := there.number;
    else
        number := 1 + coalesce((select c.number from celeriac.compensation c where c.task_id = register_compensation.task_id
                                 order by c.number desc limit 1), 0);
        insert into celeriac.compensation (task_id, number, ordinal, branch, name, registered_at)
        values (register_compensation.task_id, number, register_compensation.ordinal, register_compensation.branch,
                register_compensation.name, celeriac.now());
    end if;
    return next;
end $$;
