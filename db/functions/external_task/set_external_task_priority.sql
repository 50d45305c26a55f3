-- set_external_task_priority: how urgent an open task is from now on, also one that somebody holds. Refuses: invalid, not_found.
create or replace function celeriac.set_external_task_priority(
    task_id uuid, priority integer, principal text default null, only_types text[] default null)
returns setof celeriac.changed_task
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    held celeriac.queue;
begin
    perform celeriac.check_range(priority, -2147483647, 2147483647, 'priority');
    held := celeriac.hold_external(task_id, only_types);
    update celeriac.queue q set priority = set_external_task_priority.priority where q.task_id = held.task_id;
    update celeriac.task t set priority = set_external_task_priority.priority where t.id = held.task_id;
    return query select held.task_id, held.state, held.task_type, null::uuid;
end $$;
