-- visible_variables: what is seen from where tokens stand, or (an instance's id) from the root of an instance; inner ones hide outer
-- ones of the same name. `is_local`: it belongs to the activity or subprocess that the token stands on, or to that root.
create or replace function celeriac.visible_variables(token_uids uuid[], names text[] default null, local_only boolean default false)
returns table (token_uid uuid, name text, type text, info jsonb, value jsonb, is_local boolean)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
begin
    return query
    with recursive asked as (
        select t.uid, t.instance_id, t.variables, t.types, coalesce(s.id, t.scope) as scope, s.id is not null as is_local
          from celeriac.token t
          left join celeriac.scope s on s.instance_id = t.instance_id and s.host = t.id and not s.ended
         where t.uid = any (token_uids)
         union all
        select i.id, i.id, '{}', null, s.id, true
          from celeriac.instance i join celeriac.scope s on s.instance_id = i.id and s.parent is null
         where i.id = any (token_uids)
    ), place as (
        select a.uid, a.instance_id, a.scope, a.is_local, 1 as depth from asked a where a.is_local or not local_only
         union all
        select p.uid, p.instance_id, s.parent, false, p.depth + 1
          from place p join celeriac.scope s on s.instance_id = p.instance_id and s.id = p.scope
         where s.parent is not null and not local_only
    ), found as (
        select a.uid, 0 as depth, e.key, a.types -> e.key ->> 'type' as type, a.types -> e.key -> 'info' as info, e.value, true as is_local
          from asked a cross join jsonb_each(a.variables) e
         where names is null or e.key = any (names)
         union all
        select p.uid, p.depth, v.name, v.type, v.info, v.value, p.is_local
          from place p join celeriac.variable v on v.instance_id = p.instance_id and v.scope = p.scope
         where names is null or v.name = any (names)
    )
    select distinct on (f.uid, f.key) f.uid, f.key, f.type, nullif(f.info, 'null'), f.value, f.is_local
      from found f order by f.uid, f.key, f.depth;
end $$;
