-- promote_due: SCHEDULED -> READY, a bounded batch (ripen_tasks); the chore of that name.
create or replace function celeriac.promote_due(max_tasks integer default 1000)
returns table (promoted integer, task_types text[])
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    perform celeriac.check_range(max_tasks, 1, 10000, 'max_tasks'), celeriac.note_chore('promote_due'), celeriac.fold_streams();
    return query select * from celeriac.ripen_tasks(max_tasks);
end $$;
