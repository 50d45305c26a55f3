-- maintain_history: keeps monthly partitions ready for this month and the next two, drops those older than older_than_ms.
create or replace function celeriac.maintain_history(older_than_ms bigint) returns table (created integer, dropped integer)
language plpgsql security definer set search_path = celeriac, pg_temp
-- A partition cannot go while a long reader holds it; every write of the timeline would queue up behind us.
set lock_timeout = '2s' as $$
declare
    moment timestamptz := celeriac.now();
    month timestamp;
    old record;
begin
    perform celeriac.check_range(older_than_ms, 0, 3155760000000, 'older_than_ms');
    perform pg_advisory_xact_lock(hashtext('celeriac.history'));
    created := 0;
    dropped := 0;
    for step in 0 .. 2 loop
        month := date_trunc('month', moment at time zone 'UTC') + step * interval '1 month';
        begin
            if to_regclass(format('celeriac.history_%s', to_char(month, 'YYYYMM'))) is null then
                execute format('create table celeriac.%I partition of celeriac.history for values from (%L) to (%L)',
                    'history_' || to_char(month, 'YYYYMM'), month at time zone 'UTC', (month + interval '1 month') at time zone 'UTC');
                created := created + 1;
            end if;
        exception when check_violation then
            null;  -- rows of that month lie in the default partition already; they are found there just as well
        end;
    end loop;
    for old in
        select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
         where i.inhparent = 'celeriac.history'::regclass and c.relname ~ '^history_[0-9]{6}$'
           and (to_date(substring(c.relname from 9), 'YYYYMM') + interval '1 month') at time zone 'UTC'
               < moment - older_than_ms * interval '1 millisecond'
    loop
        execute format('drop table celeriac.%I', old.name);
        dropped := dropped + 1;
    end loop;
    delete from celeriac.history_default h where h.at < moment - older_than_ms * interval '1 millisecond';
    return next;
end $$;
