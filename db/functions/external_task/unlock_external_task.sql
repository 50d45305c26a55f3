-- unlock_external_task: LOCKED | SCHEDULED -> READY, whoever holds it or left it to rest: nobody held it last then. Of one that has
-- FAILED, and one that nobody holds, nothing changes. Refuses: not_found.
create or replace function celeriac.unlock_external_task(task_id uuid, principal text default null, only_types text[] default null)
returns setof celeriac.changed_task
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    held celeriac.queue := celeriac.hold_external(task_id, only_types);
    moment timestamptz := celeriac.now();
begin
    if held.state = 'LOCKED' then
        perform celeriac.give_back(held, moment), celeriac.ring(array[held.task_type]);
    elsif held.last_owner is not null and held.state <> 'FAILED' then
        perform celeriac.forget_owner(held, moment);
    end if;
    return query select held.task_id, celeriac.state_of(held.task_id), held.task_type, null::uuid;
end $$;
