-- share_out: how many slots each stream gets: best priority first, then in turns, ties drawn by lot.
-- Reads no more than `want` index entries of each stream and locks nothing; claim_ready then takes.
create or replace function celeriac.share_out(task_types text[], versions jsonb, want integer)
returns table (task_type text, version integer, slots bigint)
language sql volatile as $$
    select best.task_type, best.version, count(*)
      from (select s.task_type, s.version, place.priority, place.turn
              from (select *, random() as lot from celeriac.streams(task_types, versions)) s
             cross join lateral (
                   select array_agg(q.priority) as priorities
                     from (select q.priority from celeriac.queue q
                            where q.task_type = s.task_type and q.version = s.version and q.state = 'READY'
                            order by q.priority desc, q.turn_at, q.task_id limit want) q) head
             cross join lateral unnest(head.priorities) with ordinality place (priority, turn)
             order by place.priority desc, place.turn, s.lot
             limit want) best
     group by best.task_type, best.version
     order by max(best.priority) desc, min(best.turn)
$$;
