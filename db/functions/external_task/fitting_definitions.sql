-- fitting_definitions: the process definitions that are as asked: definition_ids, process_keys, version_tag (LIKE); null: all are.
create or replace function celeriac.fitting_definitions(asked jsonb) returns uuid[]
language sql stable as $$
    select case when asked ?| array['definition_ids', 'process_keys', 'version_tag'] then array(
        select d.id from celeriac.definition d
         where (not asked ? 'definition_ids' or d.id = any (array(select jsonb_array_elements_text(asked -> 'definition_ids')::uuid)))
           and (not asked ? 'process_keys' or d.key = any (array(select jsonb_array_elements_text(asked -> 'process_keys'))))
           and (not asked ? 'version_tag' or d.version_tag like asked ->> 'version_tag')) end
$$;
