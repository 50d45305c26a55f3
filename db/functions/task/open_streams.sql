-- open_streams: makes known the types and versions that these tasks bring; fetches look for no others.
-- Waits for nobody: what is not known yet is appended, and fold_streams puts it where it belongs.
create or replace function celeriac.open_streams(asked celeriac.asked_task[]) returns void
language plpgsql volatile as $$
begin
    insert into celeriac.new_stream (task_type, version)
    select distinct a.task_type, a.version from unnest(asked) a
     where not exists (select from celeriac.stream s where s.task_type = a.task_type and s.version = a.version);
end $$;
