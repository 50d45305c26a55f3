-- check_place: refuses what is not the place of a durable call: a branch (empty, or the path of a gather such as 3.0/1.12)
-- and an ordinal. The branch `undo` is for settle_compensation alone.
create or replace function celeriac.check_place(branch text, ordinal bigint, place text default '') returns void
language plpgsql immutable as $$
begin
    if branch is null or length(branch) > 1000 or branch !~ '^([1-9][0-9]{0,8}\.[0-9]{1,9}(/[1-9][0-9]{0,8}\.[0-9]{1,9})*)?$' then
        perform celeriac.refuse('invalid', place || 'branch must be empty or the path of a gather, such as 3.0/1.12', place || 'branch');
    end if;
    perform celeriac.check_range(ordinal, 1, 1000000000, place || 'ordinal');
end $$;
