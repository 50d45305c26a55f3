-- due_schedules: the schedules whose slot has come, the one that has waited longest first; takes nothing.
create or replace function celeriac.due_schedules(max_schedules integer default 100)
returns table (name text, next_at timestamptz, seen_at timestamptz, now_at timestamptz, anchor_at timestamptz, cron text,
               every text, time_zone text, catch_up text)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
begin
    perform celeriac.check_range(max_schedules, 1, 10000, 'max_schedules'), celeriac.note_chore('run_schedules');
    return query
    select s.name, s.next_at, s.updated_at, moment, s.anchor_at, s.cron, s.every, s.time_zone, s.catch_up
      from celeriac.schedule s where s.next_at <= moment
     order by s.next_at, s.name limit max_schedules;
end $$;
