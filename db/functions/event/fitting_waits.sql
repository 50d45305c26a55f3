-- fitting_waits: the open waits for an event of this name, oldest first, in instances with this business key and these variables,
-- of processes that the sender may move.
create or replace function celeriac.fitting_waits(kind text, name text, business_key text, correlation jsonb, instance_id uuid,
                                                  only_types text[])
returns setof celeriac.fitting_wait
language plpgsql volatile as $$
#variable_conflict use_column
begin
    return query
    select w.instance_id, w.id
      from celeriac.event_wait w join celeriac.instance i on i.id = w.instance_id
     where w.kind = fitting_waits.kind and w.name = fitting_waits.name and i.ended_at is null
       and w.instance_id = coalesce(fitting_waits.instance_id, w.instance_id)
       and (fitting_waits.business_key is null or i.business_key = fitting_waits.business_key)
       and celeriac.may_move(i.definition_id, fitting_waits.only_types)
       and not exists (
           select from jsonb_each(coalesce(fitting_waits.correlation, '{}')) c
            where not exists (select from celeriac.variable v
                               where v.instance_id = w.instance_id and v.name = c.key and v.value = c.value))
     order by w.opened_at, w.instance_id, w.id;
end $$;
