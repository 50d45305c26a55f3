-- streams: the (type, version) pairs that a worker serves, each with the place where its ready work may begin.
-- A type without a list of versions is served in any. A floor holds for one second, also when the clock is set back.
create or replace function celeriac.streams(task_types text[], versions jsonb, want bigint, moment timestamptz)
returns setof celeriac.served_stream
language plpgsql volatile as $$
begin
    return query
    select distinct s.task_type, s.version,
           case when floor.holds then s.floor_urgency else -2147483648 end,
           case when floor.holds then s.floor_turn_at else '-infinity' end,
           want
      from unnest(task_types) asked (name)
     cross join lateral celeriac.streams_of(asked.name) s
     cross join lateral (
           select moment < s.floor_until and moment >= s.floor_until - interval '1 second' as holds) floor
     where coalesce(versions -> asked.name @> to_jsonb(s.version), true);
end $$;
