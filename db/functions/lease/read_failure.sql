-- read_failure: what an item of fail_tasks reports; its error text is cut to 8 KiB.
create or replace function celeriac.read_failure(item jsonb, place text) returns celeriac.reported_failure
language plpgsql immutable as $$
begin
    return (celeriac.cut_text(coalesce(celeriac.read_text(item, 'error', place), ''), 8192),
            celeriac.read_integer(item, 'retry_after_ms', 0, 3155760000000, place),
            celeriac.read_integer(item, 'retries', 0, 2147483647, place), null, null)::celeriac.reported_failure;
end $$;
