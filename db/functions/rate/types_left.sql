-- types_left: those of these types that have no rate limit, or may by `rates` hand out more.
create or replace function celeriac.types_left(task_types text[], rates jsonb) returns text[]
language plpgsql volatile as $$
begin
    return array(select k from unnest(task_types) k
                  where coalesce((rates ->> k)::integer > 0, not exists (
                        select from celeriac.task_type t where t.name = k and t.rate_tasks is not null)));
end $$;
