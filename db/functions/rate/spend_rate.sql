-- spend_rate: writes down that a held rate-limited type has handed out so many tasks; answers with `rates` less that many, and
-- asks for a ring when nothing more may be handed out for now.
create or replace function celeriac.spend_rate(rates jsonb, task_type text, count integer) returns jsonb
language plpgsql volatile as $$
declare
    moment timestamptz := celeriac.now();
    left_over integer := (rates ->> task_type)::integer - count;
    due celeriac.rate_left;
begin
    if count > 0 then
        perform celeriac.note_handed_out(task_type, count, moment);
        if left_over = 0 then
            select l.* into due from celeriac.rate_left(array[task_type], moment) l;
            perform celeriac.ring_when_allowed(due, moment);
        end if;
    end if;
    return rates || jsonb_build_object(task_type, left_over);
end $$;
