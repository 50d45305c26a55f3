-- keep_files: an instance has values that name these files: they stay as long as it does. Those that are gone are passed over.
create or replace function celeriac.keep_files(instance_id uuid, files uuid[]) returns void
language plpgsql volatile as $$
#variable_conflict use_column
begin
    insert into celeriac.file_use (instance_id, file_id)
    select keep_files.instance_id, f.id from celeriac.file f where f.id = any (keep_files.files)
        on conflict do nothing;
    update celeriac.file f set used = true where f.id = any (keep_files.files) and not f.used;
end $$;
