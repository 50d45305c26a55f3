-- read_topics: what a worker asks of each topic, {topic: its item}, read and refused by field; of a topic that is named twice the
-- last item counts. Beside lock_ms an item may choose among the tasks of its topic, see fitting_tasks.
create or replace function celeriac.read_topics(topics jsonb) returns jsonb
language plpgsql immutable as $$
declare
    item record;
    place text;
begin
    if jsonb_typeof(topics) is distinct from 'array' then
        perform celeriac.refuse('invalid', 'topics must be an array', 'topics');
    end if;
    for item in select i.value, i.ordinality - 1 as number from jsonb_array_elements(topics) with ordinality i loop
        place := format('topics[%s]', item.number);
        if jsonb_typeof(item.value) <> 'object' then
            perform celeriac.refuse('invalid', place || ' must be an object', place);
        end if;
        perform celeriac.check_name(celeriac.read_text(item.value, 'topic', place), place || '.topic');
        if celeriac.read_integer(item.value, 'lock_ms', 1, 3155760000000, place) is null then
            perform celeriac.refuse('invalid', place || '.lock_ms is missing', place || '.lock_ms');
        end if;
        perform celeriac.read_text(item.value, 'business_key', place), celeriac.read_text(item.value, 'version_tag', place);
        if exists (select from unnest(array['definition_ids', 'process_keys', 'process_variables']) name
                    where jsonb_typeof(item.value -> name) not in ('array', 'null')) then
            perform celeriac.refuse('invalid', place || ': definition_ids, process_keys and process_variables must be arrays', place);
        elsif (item.value ->> 'version_tag') ~ '(^|[^\\])(\\\\)*\\$' then
            perform celeriac.refuse('invalid', place || '.version_tag must not end with a \ that escapes nothing', place || '.version_tag');
        elsif jsonb_path_exists(nullif(item.value -> 'definition_ids', 'null'), '$[*] ? (@.type() != "string"
                  || !(@ like_regex "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"))') then
            perform celeriac.refuse('invalid', place || '.definition_ids must be UUIDs', place || '.definition_ids');
        elsif jsonb_path_exists(nullif(item.value -> 'process_keys', 'null'), '$[*] ? (@.type() != "string")') then
            perform celeriac.refuse('invalid', place || '.process_keys must be texts', place || '.process_keys');
        end if;
    end loop;
    return (select coalesce(jsonb_object_agg(i.value ->> 'topic', jsonb_strip_nulls(i.value - 'process_variables')
                       || case when jsonb_array_length(coalesce(nullif(i.value -> 'process_variables', 'null'), '[]')) > 0
                               then jsonb_build_object('process_variables', i.value -> 'process_variables') else '{}' end
                       order by i.ordinality), '{}')
              from jsonb_array_elements(topics) with ordinality i);
end $$;
