-- fitting_tasks: those of the tasks whose instance is as asked: its business_key, definition_ids, process_keys, version_tag (LIKE), and
-- process_variables [[name, type, value], …], of which one must be a variable of the instance itself with that very type and value.
create or replace function celeriac.fitting_tasks(task_ids uuid[], asked jsonb) returns setof uuid
language plpgsql stable as $$
declare
    definitions uuid[] := celeriac.fitting_definitions(asked);
begin
    if not asked ?| array['business_key', 'definition_ids', 'process_keys', 'version_tag', 'process_variables'] then
        return query select unnest(task_ids);
        return;
    end if;
    return query
    select t.id
      from unnest(task_ids) one
      join celeriac.task t on t.id = one
      join celeriac.instance i on i.id = t.instance_id
     where (not asked ? 'business_key' or i.business_key = asked ->> 'business_key')
       and (definitions is null or i.definition_id = any (definitions))
       and (not asked ? 'process_variables' or exists (
               select from celeriac.scope s
                 join celeriac.variable v on v.instance_id = s.instance_id and v.scope = s.id
                 join jsonb_array_elements(asked -> 'process_variables') p on p ->> 0 = v.name and p -> 2 = v.value
                where s.instance_id = i.id and s.parent is null
                  and celeriac.kind_of(v.type, v.value) = celeriac.kind_of(p ->> 1, p -> 2)));
end $$;
