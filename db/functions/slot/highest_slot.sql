-- highest_slot: up to which number slots may be taken, when these (in order) are taken and at most so many may be.
-- As many as the limit says, unless it was lowered: those held above a number must fit into the rest of the limit.
create or replace function celeriac.highest_slot(taken integer[], at_most integer) returns integer
language plpgsql immutable as $$
declare
    highest integer := at_most;
    place integer := cardinality(taken);  -- of the last one that is not above `highest`
begin
    while place > 0 and taken[place] > highest loop
        place := place - 1;
    end loop;
    while highest > 0 and cardinality(taken) - place > at_most - highest loop
        if taken[place] = highest then
            place := place - 1;
        end if;
        highest := highest - 1;
    end loop;
    return highest;
end $$;
