-- result_of: what an operation that is DONE came to. It stands once, in its step.
create or replace function celeriac.result_of(op celeriac.operation) returns jsonb
language sql stable as $$
    select s.result from celeriac.step s where s.task_id = op.task_id and s.branch = op.branch and s.ordinal = op.ordinal
$$;
