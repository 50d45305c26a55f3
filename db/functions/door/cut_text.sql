-- cut_text: at most `bytes` bytes of a text, cut between characters.
create or replace function celeriac.cut_text(content text, bytes integer) returns text
language plpgsql immutable as $$
declare
    short text := left(content, bytes);
begin
    while octet_length(short) > bytes loop
        short := left(short, -greatest((octet_length(short) - bytes) / 4, 1));
    end loop;
    return short;
end $$;
