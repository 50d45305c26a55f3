-- promote_due: SCHEDULED -> READY | BLOCKED, a bounded batch (ripen_tasks), and BLOCKED -> READY where slots are free
-- (open_slots); the chore of that name.
create or replace function celeriac.promote_due(max_tasks integer default 1000)
returns table (promoted integer, task_types text[])
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    admitted text[];
begin
    perform celeriac.check_range(max_tasks, 1, 10000, 'max_tasks'), celeriac.note_chore('promote_due'), celeriac.fold_streams();
    select r.promoted, r.task_types into promoted, task_types from celeriac.ripen_tasks(max_tasks) r;
    admitted := array(select distinct a.task_type from celeriac.open_slots(null, max_tasks) a);
    if admitted <> '{}' then
        perform celeriac.ring(admitted);
        task_types := array(select distinct k from unnest(task_types || admitted) k);
    end if;
    return next;
end $$;
