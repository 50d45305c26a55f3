-- fitting: how many of the picked tasks `room` bytes can hold; the first of an answer fits whatever its size.
create or replace function celeriac.fitting(picked celeriac.picked_task[], room bigint, first boolean) returns integer
language plpgsql immutable as $$
declare
    used bigint := 0;
begin
    for place in 1 .. cardinality(picked) loop
        used := used + picked[place].payload_bytes;
        if used > room and not (first and place = 1) then
            return place - 1;
        end if;
    end loop;
    return cardinality(picked);
end $$;
