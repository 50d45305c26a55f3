-- may_start: counts one start in the present second; false when that many have been counted. One row, so exact for all.
create or replace function celeriac.may_start(per_second integer) returns boolean
language plpgsql volatile as $$
declare
    this_second timestamptz := date_trunc('second', celeriac.now());
begin
    if not exists (select from celeriac.schedule_pace) then
        insert into celeriac.schedule_pace (second, starts) values (this_second, 0) on conflict do nothing;
    end if;
    update celeriac.schedule_pace p
       set second = this_second, starts = case when p.second = this_second then p.starts + 1 else 1 end
     where p.singleton and (p.second <> this_second or p.starts < per_second);
    return found;
end $$;
