-- pause_schedule: fires from time to time <-> paused. What comes due while it is paused is not missed: it is not wanted.
-- Resuming needs the next slot, as read from the definition of `seen_at` (its updated_at); no row: it has another one now.
create or replace function celeriac.pause_schedule(
    name text, paused boolean, next_at timestamptz default null, seen_at timestamptz default null,
    principal text default null, only_types text[] default null)
returns setof celeriac.schedule
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    held celeriac.schedule := celeriac.hold_schedule(pause_schedule.name, only_types);
begin
    if pause_schedule.paused is null then
        perform celeriac.refuse('invalid', 'paused must be true or false', 'paused');
    elsif not pause_schedule.paused and (pause_schedule.next_at is null or not isfinite(pause_schedule.next_at)
        or pause_schedule.next_at > celeriac.now() + interval '200 years') then
        perform celeriac.refuse('invalid', 'next_at must be a time within 200 years', 'next_at');
    elsif not pause_schedule.paused and pause_schedule.seen_at is distinct from held.updated_at then
        return;
    end if;
    return query
    update celeriac.schedule s
       set paused = pause_schedule.paused,
           next_at = case when pause_schedule.paused then null
                          when held.paused or held.next_at is null then pause_schedule.next_at
                          else held.next_at end,
           error = case when pause_schedule.paused then held.error end
     where s.name = pause_schedule.name
    returning s.*;
end $$;
