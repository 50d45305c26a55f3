-- put_waits: the events that tokens of an instance wait for, as an advance has left them. The engine says when timers are due.
create or replace function celeriac.put_waits(instance_id uuid, decision jsonb, moment timestamptz) returns void
language plpgsql volatile as $$
#variable_conflict use_column
begin
    delete from celeriac.event_wait w where w.instance_id = put_waits.instance_id
       and w.id = any (array(select jsonb_array_elements_text(decision -> 'drop_waits')::integer));
    insert into celeriac.event_wait (uid, instance_id, id, token, fired, opened_at, due_at, kind, node, name, timing)
    select celeriac.uuid_v7(moment), put_waits.instance_id, w.id, w.token, w.fired, moment, w.due_at, w.kind, w.node, w.name, w.timing
      from jsonb_to_recordset(decision -> 'put_waits') w
           (id integer, token integer, fired integer, due_at timestamptz, kind text, node text, name text, timing text)
        on conflict (instance_id, id) do update set fired = excluded.fired, due_at = excluded.due_at;
end $$;
