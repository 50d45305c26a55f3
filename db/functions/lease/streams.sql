-- streams: the (type, version) pairs that a worker serves, each with the place where its ready work may begin; also those
-- that nobody has folded yet. A type without a list of versions is served in any. A floor holds for one second, also when
-- the clock is set back.
create or replace function celeriac.streams(task_types text[], versions jsonb, want bigint, moment timestamptz)
returns setof celeriac.served_stream
language plpgsql volatile as $$
begin
    return query
    select s.task_type, s.version, max(case when floor.holds then s.floor_urgency else -2147483648 end),
           max(case when floor.holds then s.floor_turn_at else '-infinity' end), want, null::uuid[]
      from (select * from celeriac.stream where task_type = any (task_types)
             union all
            select n.task_type, n.version, -2147483648, '-infinity', '-infinity', '-infinity'
              from celeriac.new_stream n where n.task_type = any (task_types)) s
     cross join lateral (
           select moment < s.floor_until and moment >= s.floor_until - interval '1 second' as holds) floor
     where coalesce(versions -> s.task_type @> to_jsonb(s.version), true)
     group by s.task_type, s.version;
end $$;
