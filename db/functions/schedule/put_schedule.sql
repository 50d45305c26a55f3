-- put_schedule: nothing | a schedule -> the schedule with this timing and task.
-- The same timing again keeps the next slot, so putting a schedule at every start of a program changes nothing.
create or replace function celeriac.put_schedule(
    name text, task jsonb, next_at timestamptz, cron text default null, every text default null, time_zone text default 'UTC',
    anchor_at timestamptz default null, catch_up text default 'one', slot_variable text default null,
    principal text default null, only_types text[] default null)
returns setof celeriac.schedule
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    old celeriac.schedule;
begin
    perform celeriac.check_schedule(put_schedule.name, put_schedule.task, put_schedule.next_at, put_schedule.cron, put_schedule.every,
        put_schedule.time_zone, put_schedule.anchor_at, coalesce(put_schedule.catch_up, 'one'), put_schedule.slot_variable);
    if not celeriac.may_touch(put_schedule.task ->> 'task_type', only_types) then
        perform celeriac.refuse('forbidden', 'task.task_type is not among the task types of this principal', 'task.task_type');
    end if;
    insert into celeriac.schedule (name, next_at, anchor_at, created_at, updated_at, cron, every, time_zone, task, principal)
    values (put_schedule.name, put_schedule.next_at, put_schedule.anchor_at, moment, moment, put_schedule.cron, put_schedule.every,
            put_schedule.time_zone, put_schedule.task, coalesce(put_schedule.principal, session_user))
        on conflict do nothing;
    select s.* into old from celeriac.schedule s where s.name = put_schedule.name for update;
    if not celeriac.may_touch(old.task ->> 'task_type', only_types) then
        perform celeriac.refuse('forbidden', 'name is that of a schedule for another task type', 'name');
    end if;
    return query
    update celeriac.schedule s
       set next_at = case when old.paused then null
                          when (old.cron, old.every, old.time_zone, old.anchor_at)
                               is not distinct from (put_schedule.cron, put_schedule.every, put_schedule.time_zone, put_schedule.anchor_at)
                          then coalesce(old.next_at, put_schedule.next_at)
                          else put_schedule.next_at end,
           cron = put_schedule.cron,
           every = put_schedule.every,
           time_zone = put_schedule.time_zone,
           anchor_at = put_schedule.anchor_at,
           catch_up = coalesce(put_schedule.catch_up, 'one'),
           slot_variable = put_schedule.slot_variable,
           task = put_schedule.task,
           principal = coalesce(put_schedule.principal, session_user),
           error = null,
           updated_at = moment
     where s.name = put_schedule.name
    returning s.*;
end $$;
