-- share_out: how many slots each stream gets: best priority first, then in turns, ties drawn by lot.
-- Reads no more than `want` index entries of each stream and locks nothing; claim_ready then takes.
create or replace function celeriac.share_out(task_types text[], versions jsonb, want integer)
returns setof celeriac.served_stream
language plpgsql volatile as $$
declare
    served celeriac.served_stream[] := array(select s from celeriac.streams(task_types, versions, want, celeriac.now()) s);
begin
    if cardinality(served) <= 1 then
        return query select s.* from unnest(served) s;
        return;
    end if;
    return query
    select best.task_type, best.version, best.urgency, best.turn_at, count(*), null::uuid[]
      from (select lined.task_type, lined.version, lined.urgency, lined.turn_at, place.priority, place.turn
              from (select s.*, celeriac.heads(s, want) as priorities, random() as lot from unnest(served) s) lined
             cross join lateral unnest(lined.priorities) with ordinality place (priority, turn)
             order by place.priority desc, place.turn, lined.lot
             limit want) best
     group by best.task_type, best.version, best.urgency, best.turn_at
     order by max(best.priority) desc, min(best.turn);
end $$;
