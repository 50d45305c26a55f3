-- put_undos: what can be undone in an instance, and the compensations under way, as an advance has left them.
create or replace function celeriac.put_undos(instance_id uuid, decision jsonb) returns void
language plpgsql volatile as $$
#variable_conflict use_column
begin
    delete from celeriac.undo u where u.instance_id = put_undos.instance_id
       and u.id = any (array(select jsonb_array_elements_text(decision -> 'drop_undos')::integer));
    insert into celeriac.undo (instance_id, id, scope, inner_scope, used, activity, handler)
    select put_undos.instance_id, u.id, u.scope, u.inner_scope, u.used, u.activity, u.handler
      from jsonb_to_recordset(decision -> 'put_undos') u
           (id integer, scope integer, inner_scope integer, used boolean, activity text, handler text)
        on conflict (instance_id, id) do update set used = excluded.used;
    delete from celeriac.undo_run r where r.instance_id = put_undos.instance_id
       and r.id = any (array(select jsonb_array_elements_text(decision -> 'drop_runs')::integer));
    insert into celeriac.undo_run (instance_id, id, running, pending)
    select put_undos.instance_id, (r ->> 'id')::integer, (r ->> 'running')::integer,
           array(select jsonb_array_elements_text(r -> 'pending')::integer)
      from jsonb_array_elements(decision -> 'put_runs') r
        on conflict (instance_id, id) do update set running = excluded.running, pending = excluded.pending;
end $$;
