-- open_starts: what begins instances of a definition from now on, in place of what began those of its older versions.
create or replace function celeriac.open_starts(made celeriac.definition, starts jsonb, moment timestamptz) returns void
language plpgsql volatile as $$
begin
    delete from celeriac.start_wait w using celeriac.definition d where d.id = w.definition_id and d.key = made.key;
    insert into celeriac.start_wait (definition_id, node, kind, name, due_at, timing, opened_at)
    select made.id, s.node, s.kind, s.name, s.due_at, s.timing, moment
      from jsonb_to_recordset(starts) s (node text, kind text, name text, due_at timestamptz, timing text);
end $$;
