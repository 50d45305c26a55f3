-- ring_for_others: rings for tasks that a fetch has let in and not taken itself: workers of other versions may wait for them.
create or replace function celeriac.ring_for_others(admitted celeriac.admitted_task[], claimed celeriac.leased_task[]) returns void
language plpgsql volatile as $$
declare
    others text[] := array(select distinct a.task_type from unnest(admitted) a
                            where not exists (select from unnest(claimed) c where c.task_id = a.task_id));
begin
    if others <> '{}' then
        perform celeriac.ring(others);
    end if;
end $$;
