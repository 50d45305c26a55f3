-- read_step_item: one item of record_steps, read at the door; its error text is cut to 8 KiB.
create or replace function celeriac.read_step_item(item jsonb, place text) returns celeriac.step
language plpgsql immutable as $$
declare
    read celeriac.step;
begin
    read.branch := coalesce(celeriac.read_text(item, 'branch', place), '');
    read.ordinal := celeriac.read_integer(item, 'ordinal', 1, 1000000000, place);
    read.kind := celeriac.read_text(item, 'kind', place);
    read.name := celeriac.read_text(item, 'name', place);
    read.result := celeriac.read_result(item -> 'result', place || '.result');
    read.error := celeriac.cut_text(celeriac.read_text(item, 'error', place), 8192);
    perform celeriac.check_place(read.branch, read.ordinal, place || '.'), celeriac.check_name(read.name, place || '.name');
    if read.kind is null or read.kind not in ('step', 'transaction') then
        -- The others are written by what makes them true: an operation by settle_operation, a wait by what ends it.
        perform celeriac.refuse('invalid', place || '.kind must be step or transaction', place || '.kind');
    elsif read.error is not null and read.result is not null then
        perform celeriac.refuse('invalid', place || ' has a result and an error', place || '.error');
    end if;
    return read;
end $$;
