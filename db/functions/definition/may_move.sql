-- may_move: whether a caller's patterns (LIKE) cover every task type that a process asks for; no patterns at all means no limit.
create or replace function celeriac.may_move(definition_id uuid, only_types text[]) returns boolean
language sql stable as $$
    select only_types is null or not exists (
        select from celeriac.definition d cross join unnest(d.topics) t where d.id = may_move.definition_id and not t like any (only_types))
$$;
