-- fitting_waits: the open waits for an event of this name, oldest first, in instances with this business key, at tokens that see
-- the variables of `correlation`, of processes that the sender may move; a message, or what is for one token, finds no token that
-- is about to leave. `strict`, as in Camunda 7: of instances that do not stand still, and `correlation` is about variables of the
-- instance itself, `local_correlation` about those of the activity that waits. `token_id`: of this token alone.
create or replace function celeriac.fitting_waits(kind text, name text, business_key text, correlation jsonb, instance_id uuid,
                                                  only_types text[], strict boolean default false, local_correlation jsonb default '{}',
                                                  token_id uuid default null)
returns setof celeriac.fitting_wait
language plpgsql volatile as $$
#variable_conflict use_column
declare
    by_sight boolean := not strict and coalesce(fitting_waits.correlation, '{}') <> '{}';
    candidates uuid[];
    waiting record;
begin
    -- Thousands may wait for a name: those that are meant are looked for from the other end, where that is known.
    if fitting_waits.instance_id is not null then
        candidates := array[fitting_waits.instance_id];
    elsif fitting_waits.business_key is not null then
        candidates := array(select i.id from celeriac.instance i where i.business_key = fitting_waits.business_key and i.ended_at is null);
    else
        candidates := celeriac.holders_of(fitting_waits.correlation);
    end if;
    for waiting in
        select w.instance_id, w.id, w.token, t.uid
          from (select w.* from celeriac.event_wait w
                 where candidates is null and w.kind = fitting_waits.kind and w.name = fitting_waits.name
                 union all
                select w.* from unnest(candidates) c join celeriac.event_wait w on w.instance_id = c
                 where w.kind = fitting_waits.kind and w.name = fitting_waits.name
                 union all
                -- What only the token itself has.
                select w.* from celeriac.event_wait w
                 where by_sight and fitting_waits.instance_id is null and fitting_waits.business_key is null
                   and w.kind = fitting_waits.kind and w.name = fitting_waits.name and w.instance_id <> all (candidates)
                   and exists (select from celeriac.token t where t.instance_id = w.instance_id and t.id = w.token and t.variables <> '{}')) w
         cross join lateral (select i.* from celeriac.instance i where i.id = w.instance_id limit 1) i  -- one by one, few or many
         cross join lateral (select t.* from celeriac.token t where t.instance_id = w.instance_id and t.id = w.token limit 1) t
         where i.ended_at is null
           and t.uid = coalesce(fitting_waits.token_id, t.uid)
           and (fitting_waits.business_key is null or i.business_key = fitting_waits.business_key)
           and not (fitting_waits.strict and i.suspended)
           and celeriac.may_move(i.definition_id, fitting_waits.only_types)
           and not exists (
               select from jsonb_each(coalesce(fitting_waits.correlation, '{}')) c
                where (fitting_waits.strict or t.variables -> c.key is distinct from c.value)
                  and not exists (select from celeriac.variable v
                                   where v.instance_id = w.instance_id and v.name = c.key and v.value = c.value
                                     and (not fitting_waits.strict or v.scope = (
                                         select s.id from celeriac.scope s where s.instance_id = w.instance_id and s.parent is null))))
           and not exists (
               select from jsonb_each(coalesce(fitting_waits.local_correlation, '{}')) c
                where t.variables -> c.key is distinct from c.value
                  and not exists (select from celeriac.scope s
                                    join celeriac.variable v on v.instance_id = s.instance_id and v.scope = s.id
                                   where s.instance_id = w.instance_id and s.host = t.id and not s.ended
                                     and v.name = c.key and v.value = c.value))
         order by w.opened_at, w.instance_id, w.id
    loop
        -- What is dear is asked about those that are left only. Somewhere in the instance is not yet where the token stands.
        continue when by_sight and not celeriac.sees(waiting.uid, fitting_waits.correlation);
        continue when (fitting_waits.kind = 'message' or fitting_waits.token_id is not null)
                      and not celeriac.still_waits(waiting.instance_id, waiting.token);
        return next row (waiting.instance_id, waiting.id, waiting.uid)::celeriac.fitting_wait;
    end loop;
end $$;
