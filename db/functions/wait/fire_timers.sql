-- fire_timers: WAITING -> READY, a bounded batch of those whose time has come (wake_due), and what other transitions have
-- left to follow (follow_up); the chore of that name.
create or replace function celeriac.fire_timers(max_tasks integer default 1000)
returns table (fired integer, task_types text[])
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
    perform celeriac.check_range(max_tasks, 1, 10000, 'max_tasks'), celeriac.note_chore('fire_timers'),
            celeriac.forget_signals(max_tasks);
    select w.fired, w.task_types into fired, task_types from celeriac.wake_due(max_tasks) w;
    task_types := array(select distinct k from unnest(task_types || celeriac.follow_up(max_tasks)) k);
    return next;
end $$;
