-- due_starts: timer start events that are due, a bounded batch; fire_start begins an instance for one.
create or replace function celeriac.due_starts(max_starts integer default 100) returns setof celeriac.due_start
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
begin
    perform celeriac.check_range(max_starts, 1, 10000, 'max_starts');
    return query
    select w.definition_id, w.node, w.due_at, w.timing, w.fired, w.opened_at
      from celeriac.start_wait w join celeriac.definition d on d.id = w.definition_id
     where w.due_at <= celeriac.now() and celeriac.is_active(d, celeriac.now()) order by w.due_at limit max_starts;
end $$;
