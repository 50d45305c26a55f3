-- read_moment: an RFC 3339 time with a zone, at most 100 years ahead; never text that a session's zone could bend.
create or replace function celeriac.read_moment(item jsonb, name text, place text) returns timestamptz
language plpgsql stable as $$
declare
    moment timestamptz;
begin
    if item -> name is null or item -> name = 'null' then
        return null;
    end if;
    if item ->> name ~ '^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?([Zz]|[+-]\d{2}:\d{2})$' then
        begin
            moment := (item ->> name)::timestamptz;
        exception when data_exception then
            moment := null;
        end;
    end if;
    if moment is null or moment > celeriac.now() + interval '100 years' then
        perform celeriac.refuse('invalid', format('%s.%s must be an RFC 3339 time with a zone, within 100 years', place, name),
                                place || '.' || name);
    end if;
    return moment;
end $$;
