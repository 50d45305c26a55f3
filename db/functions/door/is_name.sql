-- is_name: 1 to 255 printable characters with no space around them; what task types, workers and keys are called.
-- Control, format and separator characters are out: two names that look alike must not differ.
create or replace function celeriac.is_name(name text) returns boolean
language sql immutable as $$
    select name is not null and length(name) between 1 and 255 and name = btrim(name)
       and name !~ ('[\u0001-\u001f\u007f-\u00a0\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e\u2000-\u200f'
           || '\u2028-\u202f\u205f-\u206f\u3000\ufeff\ufff9-\uffff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3'
           || '\U0001d173-\U0001d17a\U000e0000-\U000e007f]')
$$;
