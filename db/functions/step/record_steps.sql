-- record_steps: writes down what a task has done, under its lease. Joins the caller's transaction: with the writes of the
-- caller it is one commit, and the lease cannot be taken away before it.
-- Refuses: a lease that is not held; a place that holds another record. The very same record again holds (a lost answer).
create or replace function celeriac.record_steps(task_id uuid, worker_id text, fencing_token bigint, steps jsonb)
returns table (recorded integer)
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    read celeriac.step[] := '{}';
    item record;
    has_operations boolean;
begin
    perform celeriac.check_name(record_steps.worker_id, 'worker_id'),
            celeriac.check_items(steps, array['branch', 'ordinal', 'kind', 'name', 'result', 'error'], 1000, 'steps');
    for item in select i.value as step, i.ordinality - 1 as place from jsonb_array_elements(steps) with ordinality i loop
        read := read || celeriac.read_step_item(item.step, format('steps[%s]', item.place));
    end loop;
    perform celeriac.hold_onward(record_steps.task_id, record_steps.worker_id, record_steps.fencing_token);
    has_operations := exists (select from celeriac.operation o where o.task_id = record_steps.task_id);
    recorded := 0;
    for place in 1 .. cardinality(read) loop
        if has_operations then
            perform celeriac.refuse_operation(record_steps.task_id, read[place].branch, read[place].ordinal);
        end if;
        if celeriac.write_step(record_steps.task_id, read[place].branch, read[place].ordinal, read[place].kind, read[place].name,
                               read[place].result, read[place].error, record_steps.fencing_token, moment) then
            recorded := recorded + 1;
        end if;
    end loop;
    return next;
end $$;
