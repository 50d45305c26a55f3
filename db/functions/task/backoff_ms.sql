-- backoff_ms: how long a failed task rests: first * factor^(failures - 1), at most cap.
-- The exponent is capped before the power is taken, where that is 1e260: nothing overflows however often a task has failed,
-- and a factor close to 1 still gets to the cap.
-- The jitter only shortens, and its share is drawn from the task's id: tasks spread, yet one task's rests never shrink.
create or replace function celeriac.backoff_ms(
    task_id uuid, failures integer, first_ms bigint, factor double precision, cap_ms bigint, jitter double precision)
returns bigint language sql immutable as $$
    select floor(
        least(cap_ms::double precision, first_ms * power(factor, least(greatest(failures - 1, 0), 600 / nullif(ln(factor), 0))))
        * (1 - jitter * (abs(hashtext(task_id::text)::bigint) % 1000) / 1000.0))::bigint
$$;
