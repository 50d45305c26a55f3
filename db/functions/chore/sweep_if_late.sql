-- sweep_if_late: expires, promotes and wakes a bounded few where the chores that should have done so have not run for 3 seconds
-- (or, the clock having been set back, seem to have run at a time to come).
create or replace function celeriac.sweep_if_late(max_tasks integer) returns void
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    horizon timestamptz := moment - interval '3 seconds';
begin
    if not exists (select from celeriac.chore c where c.name = 'expire_leases' and c.ran_at between horizon and moment + interval '3 seconds') then
        perform celeriac.reap_leases(max_tasks);
    end if;
    if not exists (select from celeriac.chore c where c.name = 'promote_due' and c.ran_at between horizon and moment + interval '3 seconds') then
        perform celeriac.ripen_tasks(max_tasks), celeriac.fold_streams(), celeriac.open_slots(null, max_tasks);
    end if;
    if not exists (select from celeriac.chore c where c.name = 'fire_timers' and c.ran_at between horizon and moment + interval '3 seconds') then
        perform celeriac.wake_due(max_tasks), celeriac.follow_up(max_tasks);
    end if;
end $$;
