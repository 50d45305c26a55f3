-- redrive_tasks: FAILED -> READY, a bounded batch by filter, oldest first; those that someone else is changing are left out, and
-- those that their processes no longer want.
create or replace function celeriac.redrive_tasks(
    task_type text default null, failed_after timestamptz default null, failed_before timestamptz default null,
    max_tasks integer default 1000, principal text default null, only_types text[] default null)
returns table (task_id uuid)
language plpgsql security definer set search_path = celeriac, pg_temp
set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    chosen uuid[];
    one record;
begin
    perform celeriac.check_range(redrive_tasks.max_tasks, 1, 1000, 'max_tasks');
    select array_agg(f.id) into chosen
      from (select t.id from celeriac.task t
             where t.state = 'FAILED'
               and t.task_type = coalesce(redrive_tasks.task_type, t.task_type)
               and t.ended_at >= coalesce(failed_after, '-infinity') and t.ended_at < coalesce(failed_before, 'infinity')
               and celeriac.may_touch(t.task_type, only_types) and celeriac.is_wanted(t)
             order by t.id limit redrive_tasks.max_tasks for update skip locked) f;
    for one in select t.id, i.id as instance_id from celeriac.task t left join celeriac.instance i on i.id = t.instance_id
                where t.id = any (chosen) order by t.id loop
        -- Its row would come first; but here those of tasks are held already, so whoever is at an instance is left alone with it.
        perform from celeriac.instance i where i.id = one.instance_id for share skip locked;
        if one.instance_id is null or found and (select celeriac.is_wanted(t) from celeriac.task t where t.id = one.id) then
            return query
            select r.task_id from celeriac.redrive_task(one.id, null, coalesce(redrive_tasks.principal, session_user), only_types) r;
        end if;
    end loop;
end $$;
