-- holders_of: the instances in which one of these variables has its value, the first of them that few have; null when all have many,
-- or none is asked for. The caller looks for the others, and whether they are open.
create or replace function celeriac.holders_of(variables jsonb) returns uuid[]
language plpgsql stable as $$
declare
    few constant integer := 10000;
    asked record;
    found uuid[];
begin
    for asked in select c.key, c.value from jsonb_each(variables) c loop
        found := array(select v.instance_id from celeriac.variable v
                        where v.name = asked.key and jsonb_hash_extended(v.value, 0) = jsonb_hash_extended(asked.value, 0)
                          and v.value = asked.value
                        limit few + 1);
        if cardinality(found) <= few then
            return array(select distinct f from unnest(found) f);
        end if;
    end loop;
    return null;
end $$;
