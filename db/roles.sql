-- Roles: NOLOGIN, EXECUTE on what serves callers and SELECT on views, nothing else. Login roles are made members of them.
do $$
declare
    role text;
begin
    foreach role in array array['celeriac_api', 'celeriac_fleet'] loop
        -- A role belongs to the whole server: another database of it may be making the same one right now.
        begin
            if not exists (select from pg_roles where rolname = role) then
                execute format('create role %I nologin', role);
            end if;
        exception when duplicate_object or unique_violation then
            null;
        end;
    end loop;
end $$;
