-- set_external_task_retries: how many retries tasks have left, all or nothing. More than 0 makes a FAILED one READY again under its id
-- and resolves its incident; 0 ends an open one as FAILED, with an incident, and its worker may still complete it (a lock is not kept).
-- `found_ids`: tasks that somebody has found and not named; of these, what is over by now is passed over.
-- Answers with each task, once; `instance_id` where an instance must be advanced. Refuses: invalid, not_found.
create or replace function celeriac.set_external_task_retries(
    task_ids uuid[], retries integer, principal text default null, only_types text[] default null, found_ids uuid[] default '{}')
returns setof celeriac.changed_task
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    me text := coalesce(set_external_task_retries.principal, session_user);
    every_id uuid[] := task_ids || found_ids;
    held celeriac.queue;
    one uuid;
begin
    perform celeriac.check_range(retries, 0, 2147483647, 'retries');
    -- Instances before tasks, and each in the order of the ids: whoever else wants several of them comes the same way.
    perform from celeriac.instance i
      where i.id = any (array(select t.instance_id from celeriac.task t where t.id = any (every_id) and t.instance_id is not null))
      order by i.id for share;
    for one in select distinct u from unnest(every_id) u order by u loop
        held := celeriac.hold_external(one, only_types, one = any (task_ids));
        continue when held.task_id is null;
        return query select c.* from celeriac.change_retries(held, retries, me, only_types) c;
    end loop;
end $$;
