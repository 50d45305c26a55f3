-- comes_when: in which order the facts of one load are worked in. A stop that undoes nothing comes first: whoever was told of a cancel
-- finds the instance canceled. What may undo the instance or leave a part of it (a failure, an error, a stop that undoes) comes last:
-- work that was accepted before anybody worked that in was done, and is undone with the rest. In between, as they came.
create or replace function celeriac.comes_when(fact celeriac.fact) returns integer
language sql stable as $$
    select case
        when celeriac.stops_at_once(fact) then 0
        when fact.kind = 'stopped' then 2
        when fact.kind in ('failed', 'thrown') and not exists (
            select from celeriac.fact f where f.instance_id = fact.instance_id and f.token_uid = fact.token_uid and f.id > fact.id) then 2
        else 1 end
$$;
