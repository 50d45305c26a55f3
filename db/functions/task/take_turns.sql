-- take_turns: spreads the tasks of one fairness key, one second apart, behind the last one of that key, so that a key with
-- thousands of tasks lines up among the others instead of before them. A turn only orders; nothing waits for it.
-- A turn lies an hour ahead at most: what a key has had in the past is forgotten by then.
create or replace function celeriac.take_turns(asked celeriac.asked_task[], kept integer[], moment timestamptz)
returns celeriac.asked_task[]
language plpgsql volatile as $$
declare
    line record;
    turn_at timestamptz;
begin
    for line in
        select a.task_type, a.fairness_key, array_agg(a.ordinal order by a.ordinal) as ordinals
          from unnest(asked) a
         where a.fairness_key is not null and (a.idempotency_key is null or a.ordinal = any (kept))
         group by a.task_type, a.fairness_key order by a.task_type, a.fairness_key
    loop
        turn_at := celeriac.join_line(line.task_type, line.fairness_key, cardinality(line.ordinals), moment);
        for place in 1 .. cardinality(line.ordinals) loop
            asked[line.ordinals[place] + 1].turn_at := greatest(
                least(turn_at + (place - 1) * interval '1 second', moment + interval '1 hour'),
                asked[line.ordinals[place] + 1].run_at);
        end loop;
    end loop;
    return asked;
end $$;
