-- delete_schedule: a schedule -> nothing. Tasks that it has enqueued go on.
create or replace function celeriac.delete_schedule(name text, principal text default null, only_types text[] default null)
returns setof celeriac.schedule
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
begin
    perform celeriac.hold_schedule(delete_schedule.name, only_types);
    return query delete from celeriac.schedule s where s.name = delete_schedule.name returning s.*;
end $$;
