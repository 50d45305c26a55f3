-- forget_events: a bounded batch of events that were kept for whoever would wait for them, and have expired.
create or replace function celeriac.forget_events(max_events integer) returns void
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();  -- no index is asked for what changes from row to row
    expired uuid;
begin
    for expired in
        select k.id from celeriac.kept_event k where k.expires_at <= moment order by k.expires_at
         limit max_events for update skip locked
    loop
        delete from celeriac.kept_event k where k.id = expired;
    end loop;
end $$;
