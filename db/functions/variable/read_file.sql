-- read_file: a part of a file, from a byte on (0 is the first) and at most so many, and the length of it all; no row: there is no such file.
create or replace function celeriac.read_file(file_id uuid, first bigint default 0, most integer default 1048576)
returns table (part bytea, length bigint)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
begin
    perform celeriac.check_range(read_file.first, 0, 2147483646, 'first'), celeriac.check_range(most, 0, 16777216, 'most');
    return query
    select substring(f.content from read_file.first::integer + 1 for most), octet_length(f.content)::bigint
      from celeriac.file f where f.id = read_file.file_id;
end $$;
