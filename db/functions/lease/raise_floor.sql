-- raise_floor: lets claims of a stream begin at its first ready task for the next second, because finding it was slow.
-- A snapshot that someone holds open keeps vacuum from removing the index entries of claimed tasks, and every claim would
-- walk over all of them: a hundred thousand after a few minutes. For one second at a time they are skipped. Higher
-- priorities are always looked at; what is older than the floor (committed late, or given back) is seen when it ends.
create or replace function celeriac.raise_floor(stream celeriac.served_stream, head celeriac.picked_task, moment timestamptz)
returns void language sql volatile as $$
    with mine as (
        -- Whoever comes second goes on without waiting.
        select s.task_type, s.version from celeriac.stream s
         where s.task_type = (stream).task_type and s.version = (stream).version and s.floor_until <= moment
           for update skip locked
    )
    update celeriac.stream s
       set floor_urgency = coalesce((head).urgency, 0), floor_turn_at = coalesce((head).turn_at, moment),
           floor_until = moment + interval '1 second'
      from mine m where s.task_type = m.task_type and s.version = m.version
$$;
