-- enqueue_children: nothing -> READY | SCHEDULED, asked for by another task under its lease, with the step that says which.
-- At the same place again: the same tasks, and nothing is enqueued. Refuses what enqueue_tasks refuses; a lease that is not
-- held; a place where another call is recorded. A task that an idempotency key found is no child: somebody else asked for it.
create or replace function celeriac.enqueue_children(
    task_id uuid, worker_id text, fencing_token bigint, branch text, ordinal integer, name text, tasks jsonb)
returns setof celeriac.child_state
language plpgsql security definer set search_path = celeriac, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
    moment timestamptz := celeriac.now();
    asked celeriac.asked_wait;
    past celeriac.met_wait;
    answers celeriac.child_state[] := '{}';
    one record;
begin
    perform celeriac.check_name(enqueue_children.worker_id, 'worker_id'), celeriac.check_name(enqueue_children.name, 'name'),
            celeriac.check_place(enqueue_children.branch, enqueue_children.ordinal);
    perform celeriac.hold_onward(enqueue_children.task_id, enqueue_children.worker_id, enqueue_children.fencing_token);
    asked.branch := enqueue_children.branch; asked.ordinal := enqueue_children.ordinal;
    asked.kind := 'enqueue'; asked.name := enqueue_children.name;
    past := celeriac.met_before(asked, enqueue_children.task_id);
    if past.state is not null then
        return query
        select (i.ordinality - 1)::integer, i.value::uuid, coalesce(celeriac.state_of(i.value::uuid), 'PURGED')
          from jsonb_array_elements_text(past.result) with ordinality i order by i.ordinality;
        return;
    end if;
    for one in select e.* from celeriac.enqueue_tasks(enqueue_children.tasks, session_user, null) e order by e.ordinal loop
        if one.created then
            insert into celeriac.child (task_id, parent_id) values (one.task_id, enqueue_children.task_id);
        end if;
        answers := answers || (one.ordinal, one.task_id, one.state)::celeriac.child_state;
    end loop;
    insert into celeriac.step (task_id, recorded_at, fencing_token, ordinal, branch, kind, name, result)
    values (enqueue_children.task_id, moment, enqueue_children.fencing_token, enqueue_children.ordinal, enqueue_children.branch,
            'enqueue', enqueue_children.name, (select jsonb_agg(a.task_id order by a.ordinal) from unnest(answers) a));
    return query select a.* from unnest(answers) a order by a.ordinal;
end $$;
