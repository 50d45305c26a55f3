-- read_steps: what a task has done, for its replay: a page in the order of (branch, ordinal) beyond `after`, of at most
-- max_steps rows and about max_bytes of results; at least one row if there is any.
create or replace function celeriac.read_steps(
    task_id uuid, worker_id text, fencing_token bigint, after_branch text default null, after_ordinal integer default null,
    max_steps integer default 1000, max_bytes bigint default 4194304)
returns table (branch text, ordinal integer, kind text, name text, result jsonb, error text)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    room bigint := max_bytes;
    found_step celeriac.step;
begin
    perform celeriac.check_name(read_steps.worker_id, 'worker_id'), celeriac.check_range(max_steps, 1, 10000, 'max_steps'),
            celeriac.check_range(max_bytes, 1, 67108864, 'max_bytes');
    perform celeriac.see_lease(read_steps.task_id, read_steps.worker_id, read_steps.fencing_token);
    for found_step in
        select s.* from celeriac.step s
         where s.task_id = read_steps.task_id
           and (s.branch, s.ordinal) > (coalesce(after_branch, ''), coalesce(after_ordinal, 0))
         order by s.branch, s.ordinal limit max_steps
    loop
        room := room - 64 - coalesce(octet_length(found_step.result::text), 0) - coalesce(octet_length(found_step.error), 0);
        exit when room < 0 and branch is not null;
        branch := found_step.branch; ordinal := found_step.ordinal; kind := found_step.kind; name := found_step.name;
        result := found_step.result; error := found_step.error;
        return next;
    end loop;
end $$;
