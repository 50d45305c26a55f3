-- still_waits: whether a token is not about to leave by something that has happened to it, or to what it is inside of, and that
-- nobody has worked in yet. A boundary event that does not interrupt takes nobody away. (Its cost: what else is asked is asked first.)
create or replace function celeriac.still_waits(instance_id uuid, token integer) returns boolean
language plpgsql stable cost 100000 as $$
#variable_conflict use_column
declare
    at celeriac.token;
    place integer := token;
    stopped boolean;
begin
    if not exists (select from celeriac.fact f where f.instance_id = still_waits.instance_id) then
        return true;
    end if;
    -- A stop of what is being undone changes nothing, and one that undoes lets those go on that undo already.
    select exists (select from celeriac.fact f where f.instance_id = i.id and f.kind = 'stopped') into stopped
      from celeriac.instance i where i.id = still_waits.instance_id and i.status <> 'COMPENSATING';
    if stopped and exists (select from celeriac.fact f where f.instance_id = still_waits.instance_id and celeriac.stops_at_once(f)) then
        return false;
    end if;
    while place is not null loop
        select t.* into at from celeriac.token t where t.instance_id = still_waits.instance_id and t.id = place;
        stopped := stopped and at.undoes is null;
        if exists (select from celeriac.fact f
                    where f.instance_id = still_waits.instance_id and f.kind in ('completed', 'thrown') and f.token_uid = at.uid)
           or exists (
               select from celeriac.fact f
                 join celeriac.event_wait w on w.instance_id = f.instance_id and w.id = f.wait_id
                 join celeriac.instance i on i.id = f.instance_id
                 join celeriac.definition d on d.id = i.definition_id
                where f.instance_id = still_waits.instance_id and f.kind = 'happened' and w.token = at.id
                  and not exists (select from jsonb_array_elements(d.graph -> 'nodes') n
                                   where n ->> 'id' = w.node and n -> 'interrupting' = 'false')) then
            return false;
        end if;
        place := (select s.host from celeriac.scope s where s.instance_id = at.instance_id and s.id = at.scope);
    end loop;
    return not coalesce(stopped, false);
end $$;
