-- misfits: why an instance could not stand in another version of its process: each element that it needs there and does not
-- find, or finds changed. It needs those that its tokens, their waits and what can be undone are at, and the flows by which
-- tokens have come that wait for others.
create or replace function celeriac.misfits(instance_id uuid, old_graph jsonb, new_graph jsonb)
returns table (node text, reason text)
language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    with needed as (
        select t.node as id from celeriac.token t where t.instance_id = misfits.instance_id
         union select s.node from celeriac.scope s where s.instance_id = misfits.instance_id and s.parent is not null
         union select w.node from celeriac.event_wait w where w.instance_id = misfits.instance_id
         union select u.activity from celeriac.undo u where u.instance_id = misfits.instance_id and not u.used
         union select u.handler from celeriac.undo u where u.instance_id = misfits.instance_id and not u.used and u.handler is not null
    ), old as (
        select n ->> 'id' as id, celeriac.standing_of(n) as standing from jsonb_array_elements(old_graph -> 'nodes') n
    ), new as (
        select n ->> 'id' as id, celeriac.standing_of(n) as standing from jsonb_array_elements(new_graph -> 'nodes') n
    )
    select n.id, case when new.id is null then 'is not there' else 'is something else there' end
      from needed n left join new on new.id = n.id left join old on old.id = n.id
     where new.standing is distinct from old.standing
    union all
    select t.via, 'is not there, or leads elsewhere' from celeriac.token t
     where t.instance_id = misfits.instance_id and t.phase = 'JOINING' and t.via is not null
       and not exists (select from jsonb_array_elements(new_graph -> 'flows') f
                        where f ->> 'id' = t.via and f ->> 'target' = t.node)
     order by 1;
end $$;
