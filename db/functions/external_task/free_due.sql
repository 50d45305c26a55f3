-- free_due: expires and promotes a bounded few right now, as the chores would within a second; whether that made any task READY.
create or replace function celeriac.free_due(max_tasks integer) returns boolean
language plpgsql volatile as $$
declare
    reaped record;
    ripened record;
begin
    select r.* into reaped from celeriac.reap_leases(max_tasks) r;
    select r.* into ripened from celeriac.ripen_tasks(max_tasks) r;
    return reaped.expired > reaped.failed or ripened.promoted > 0;
end $$;
