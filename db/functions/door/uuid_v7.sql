-- uuid_v7: an id that sorts by its time (RFC 9562: 48 bits of ms, 12 bits of a ms's fraction, the rest at random).
-- Our own on every server version: the caller gives the time, so a batch keeps its order inside one microsecond tick.
create or replace function celeriac.uuid_v7(moment timestamptz) returns uuid
language plpgsql volatile as $$
declare
    ms numeric := extract(epoch from moment) * 1000;
    whole bigint := floor(ms);
    fraction integer := floor((ms - whole) * 4096);
begin
    return encode(
        substring(int8send(whole) from 3 for 6)
            || substring(int4send(28672 | fraction) from 3 for 2)          -- 0x7000: version 7
            || set_bit(set_bit(substring(uuid_send(gen_random_uuid()) from 9 for 8), 6, 0), 7, 1),
        'hex')::uuid;
end $$;
