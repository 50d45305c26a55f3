-- fold_streams: puts what enqueues have appended to new_stream into stream.
create or replace function celeriac.fold_streams() returns void
language plpgsql volatile as $$
begin
    if not exists (select from celeriac.new_stream) then
        return;
    end if;
    with seen as materialized (
        select n.ctid as place, n.task_type, n.version from celeriac.new_stream n limit 1000 for update skip locked
    ), folded as (
        insert into celeriac.stream (task_type, version)
        select distinct s.task_type, s.version from seen s order by s.task_type, s.version on conflict do nothing
    )
    delete from celeriac.new_stream n using seen s where n.ctid = s.place;
end $$;
