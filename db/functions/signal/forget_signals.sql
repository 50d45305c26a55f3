-- forget_signals: a bounded batch of signals that have expired, taken or not, and who got them.
create or replace function celeriac.forget_signals(max_signals integer) returns void
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();  -- no index is asked for what changes from row to row
    expired uuid;
begin
    for expired in
        select s.id from celeriac.signal s where s.expires_at <= moment order by s.expires_at
         limit max_signals for update skip locked
    loop
        delete from celeriac.signal s where s.id = expired;
    end loop;
end $$;
