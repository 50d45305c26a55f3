-- may_touch: whether a caller's patterns (LIKE) cover a task type; no patterns at all means no limit.
create or replace function celeriac.may_touch(task_type text, only_types text[]) returns boolean
language sql immutable as $$ select only_types is null or task_type like any (only_types) $$;
