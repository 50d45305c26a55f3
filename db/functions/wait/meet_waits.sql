-- meet_waits: what of the asked has come already, each with its step; results of about 4 MiB, since the rest can be asked again.
create or replace function celeriac.meet_waits(asked celeriac.asked_wait[], held celeriac.queue, moment timestamptz)
returns celeriac.met_wait[]
language plpgsql volatile as $$
declare
    met celeriac.met_wait[] := '{}';
    one celeriac.met_wait;
    wanted celeriac.asked_wait;
    has_steps boolean := exists (select from celeriac.step s where s.task_id = held.task_id);
    room bigint := 4194304;
begin
    foreach wanted in array asked loop
        one := null;
        if has_steps then
            one := celeriac.met_before(wanted, held.task_id);
        end if;
        if one.state is null then
            one := celeriac.meet_wait(wanted, held, moment);
        end if;
        if one.state is not null then
            met := met || one;
            room := room - 64 - coalesce(octet_length(one.result::text), 0);
            exit when room < 0;
        end if;
    end loop;
    return met;
end $$;
