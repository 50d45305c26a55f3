-- raise_model_incidents: tokens that cannot go on by themselves; those that a token had before are over.
create or replace function celeriac.raise_model_incidents(instance_id uuid, raised jsonb, moment timestamptz) returns void
language plpgsql volatile as $$
#variable_conflict use_column
begin
    -- A token that was tried again, or is gone, has no incident any more; if it cannot go on, it gets a new one.
    update celeriac.incident i
       set resolved_at = moment, resolution = 'retry'
     where i.instance_id = raise_model_incidents.instance_id and i.resolved_at is null
       and not exists (
           select from celeriac.token t
            where t.uid = i.token_uid and t.stuck
              and t.id <> all (array(select (r ->> 'token')::integer from jsonb_array_elements(raised) r)));
    insert into celeriac.incident (id, task_id, created_at, kind, name, message, detail, instance_id, token_uid)
    select celeriac.uuid_v7(moment),
           (select k.id from celeriac.task k where k.token_id = t.uid order by k.id desc limit 1),
           moment, r.kind, r.node, celeriac.cut_text(r.message, 8192), '{}', raise_model_incidents.instance_id, t.uid
      from jsonb_to_recordset(raised) r (token integer, node text, kind text, message text)
      join celeriac.token t on t.instance_id = raise_model_incidents.instance_id and t.id = r.token;
end $$;
