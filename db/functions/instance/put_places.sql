-- put_places: the scopes, tokens and variables of an instance that an advance has changed.
create or replace function celeriac.put_places(instance_id uuid, decision jsonb, moment timestamptz) returns void
language plpgsql volatile as $$
#variable_conflict use_column
declare
    gone integer[] := array(select jsonb_array_elements_text(decision -> 'drop_scopes')::integer);
begin
    if gone <> '{}' then
        delete from celeriac.variable v where v.instance_id = put_places.instance_id and v.scope = any (gone);
        delete from celeriac.scope s where s.instance_id = put_places.instance_id and s.id = any (gone);
    end if;
    delete from celeriac.token t where t.instance_id = put_places.instance_id
       and t.id = any (array(select jsonb_array_elements_text(decision -> 'drop_tokens')::integer));
    if decision -> 'put_scopes' <> '[]' then
        insert into celeriac.scope (instance_id, id, parent, host, alive, ended, node)
        select put_places.instance_id, s.id, s.parent, s.host, s.alive, s.ended, s.node
          from jsonb_to_recordset(decision -> 'put_scopes') s
               (id integer, parent integer, host integer, alive integer, ended boolean, node text)
            on conflict (instance_id, id) do update set host = excluded.host, alive = excluded.alive, ended = excluded.ended;
    end if;
    insert into celeriac.token (instance_id, id, uid, entered_at, scope, undoes, run, stuck, phase, node, via, variables, types)
    select put_places.instance_id, t.id, celeriac.uuid_v7(moment), moment, t.scope, t.undoes, t.run, t.stuck, t.phase, t.node, t.via, t.variables,
           nullif(t.types, 'null')
      from jsonb_to_recordset(decision -> 'put_tokens') t
           (id integer, scope integer, undoes integer, run integer, stuck boolean, phase text, node text, via text, variables jsonb, types jsonb)
        on conflict (instance_id, id) do update
           set undoes = excluded.undoes, run = excluded.run, stuck = excluded.stuck, phase = excluded.phase, node = excluded.node,
               via = excluded.via, variables = excluded.variables, types = excluded.types;
    if decision -> 'put_variables' <> '[]' then
        insert into celeriac.variable (instance_id, scope, name, value, type, info)
        select put_places.instance_id, (v ->> 0)::integer, v ->> 1, v -> 2, v ->> 3, nullif(v -> 4, 'null') from jsonb_array_elements(decision -> 'put_variables') v
            on conflict (instance_id, scope, name) do update set value = excluded.value, type = excluded.type, info = excluded.info;
    end if;
    if decision -> 'files' <> '[]' then
        perform celeriac.keep_files(put_places.instance_id, array(select jsonb_array_elements_text(decision -> 'files')::uuid));
    end if;
end $$;
