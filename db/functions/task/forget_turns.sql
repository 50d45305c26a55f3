-- forget_turns: a bounded batch of fairness keys whose line has long passed; a new task of theirs starts a new line.
create or replace function celeriac.forget_turns(max_keys integer) returns void
language sql volatile as $$
    with passed as materialized (
        select f.task_type, f.fairness_key from celeriac.fair_share f
         where f.last_turn_at < celeriac.now() - interval '1 hour' limit max_keys for update skip locked
    )
    delete from celeriac.fair_share f using passed p where f.task_type = p.task_type and f.fairness_key = p.fairness_key
$$;
