-- told_of: what an instance is told of a worker's variables and their types; parts that are empty are left out.
create or replace function celeriac.told_of(variables jsonb, types jsonb, local_variables jsonb, local_types jsonb) returns jsonb
language plpgsql immutable as $$
begin
    perform celeriac.read_variables(jsonb_build_object('variables', local_variables), 'local'),
            celeriac.check_types(types, variables, 'types'), celeriac.check_types(local_types, local_variables, 'local_types');
    return jsonb_build_object('variables', celeriac.read_variables(jsonb_build_object('variables', variables), 'task'))
        || case when types <> '{}' then jsonb_build_object('types', types) else '{}' end
        || case when local_variables <> '{}' then jsonb_build_object('local_variables', local_variables) else '{}' end
        || case when local_types <> '{}' then jsonb_build_object('local_types', local_types) else '{}' end;
end $$;
