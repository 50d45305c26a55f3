-- streams_of: the streams of a type, also those that nobody has folded yet.
create or replace function celeriac.streams_of(task_type text) returns setof celeriac.stream
language plpgsql stable as $$
begin
    return query select s.* from celeriac.stream s where s.task_type = streams_of.task_type;
    return query
    select distinct n.task_type, n.version, -2147483648, '-infinity'::timestamptz, '-infinity'::timestamptz, '-infinity'::timestamptz
      from celeriac.new_stream n
     where n.task_type = streams_of.task_type
       and not exists (select from celeriac.stream s where s.task_type = n.task_type and s.version = n.version);
end $$;
