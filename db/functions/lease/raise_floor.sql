-- raise_floor: lets claims of a stream begin at its first ready task for the next second, because it lay behind very many
-- entries that no longer count, and did so a moment ago, too.
-- The first claim that walks over dead entries marks them, and the next one is spared. Not so while a snapshot that
-- someone holds open still counts them: then every claim would walk over all, a hundred thousand after a few minutes. For
-- one second at a time they are skipped. Higher priorities are always looked at; what is older than the floor (committed
-- late, or given back) is seen when it ends.
create or replace function celeriac.raise_floor(stream celeriac.served_stream, head celeriac.picked_task, moment timestamptz)
returns void language plpgsql volatile as $$
declare
    known celeriac.stream;
begin
    perform celeriac.fold_streams();
    select s.* into known from celeriac.stream s
     where s.task_type = stream.task_type and s.version = stream.version for update skip locked;
    if not found then
        return;  -- whoever comes second goes on without waiting
    end if;
    if known.walked_at between moment - interval '10 seconds' and moment then
        known.floor_urgency := coalesce(head.urgency, 0);
        known.floor_turn_at := coalesce(head.turn_at, moment);
        known.floor_until := moment + interval '1 second';
    end if;
    update celeriac.stream s
       set floor_urgency = known.floor_urgency, floor_turn_at = known.floor_turn_at, floor_until = known.floor_until,
           walked_at = moment
     where s.task_type = stream.task_type and s.version = stream.version;
end $$;
