-- store_file: the content of a File variable, kept under the id that is answered. `instance_id` null: whichever instance its value
-- comes to keeps it.
create or replace function celeriac.store_file(content bytea, instance_id uuid default null) returns uuid
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    fresh uuid := celeriac.uuid_v7(moment);
begin
    insert into celeriac.file (id, created_at, content) values (fresh, moment, store_file.content);
    if store_file.instance_id is not null then
        perform celeriac.keep_files(store_file.instance_id, array[fresh]);
    end if;
    return fresh;
end $$;
