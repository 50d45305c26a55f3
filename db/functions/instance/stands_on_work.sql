-- stands_on_work: whether a token stands on something that is completed from outside (app/process/advance.py says the same).
create or replace function celeriac.stands_on_work(at celeriac.token) returns boolean
language plpgsql stable as $$
begin
    return exists (
        select from celeriac.instance i join celeriac.definition d on d.id = i.definition_id
         cross join jsonb_array_elements(d.graph -> 'nodes') n
         where i.id = at.instance_id and n ->> 'id' = at.node and (n ->> 'kind' in ('task', 'user', 'receive') or n ? 'work'));
end $$;
