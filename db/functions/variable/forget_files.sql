-- forget_files: a bounded batch of files that are older than a time and came to no instance.
create or replace function celeriac.forget_files(before timestamptz, max_files integer) returns void
language plpgsql volatile as $$
declare
    unused uuid;
begin
    for unused in
        select f.id from celeriac.file f where not f.used and f.created_at < forget_files.before order by f.created_at
         limit max_files for update skip locked
    loop
        delete from celeriac.file f where f.id = unused;
    end loop;
end $$;
