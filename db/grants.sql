-- Grants, made anew at every migrate: what serves a caller is security definer; the rest is the functions' own.
do $$
declare
    thing record;
begin
    revoke all on all functions in schema celeriac from public, celeriac_api, celeriac_fleet;
    revoke all on all tables in schema celeriac from public, celeriac_api, celeriac_fleet;
    grant usage on schema celeriac to celeriac_api, celeriac_fleet;
    for thing in
        select p.oid::regprocedure as name from pg_proc p
         where p.pronamespace = 'celeriac'::regnamespace and (p.prosecdef or p.proname = 'now')
    loop
        execute format('grant execute on function %s to celeriac_api', thing.name);
        -- A fleet works and asks for work; it keeps no keys, deploys nothing and moves no instance.
        if thing.name::text !~ 'api_key|_models|external_task|_deployment|_decision|(load|stop|suspend|migrate|purge|delete)_instance|suspend_definition|due_instances|set_variables|visible_variables|read_file|store_file|(complete|assign|describe|throw)_token|event_timer|due_starts|fire_start' then
            execute format('grant execute on function %s to celeriac_fleet', thing.name);
        end if;
    end loop;
    for thing in
        select c.oid::regclass as name from pg_class c where c.relnamespace = 'celeriac'::regnamespace and c.relkind = 'v'
    loop
        execute format('grant select on %s to celeriac_api', thing.name);
        if thing.name::text !~ 'api_key|resources' then
            execute format('grant select on %s to celeriac_fleet', thing.name);
        end if;
    end loop;
end $$;
