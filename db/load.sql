-- Before the functions: bodies are checked when they are called (they name each other in any order), and the views go,
-- since a view cannot change its columns in place. All in the transaction of the migrate.
set local check_function_bodies = off;
do $$
declare
    view record;
begin
    for view in
        select c.relname as name from pg_class c where c.relnamespace = 'celeriac'::regnamespace and c.relkind = 'v'
    loop
        execute format('drop view if exists celeriac.%I cascade', view.name);
    end loop;
end $$;
