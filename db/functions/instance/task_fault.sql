-- task_fault: why the work that a token asks for cannot be a task, which only its expressions and variables can bring about; null
-- when it can.
create or replace function celeriac.task_fault(item jsonb) returns text
language sql immutable as $$
    select case
        when not celeriac.is_name(item ->> 'task_type') then 'its topic is no name of a task type'
        when abs((item ->> 'priority')::numeric) > 2147483647 then 'its priority is over 2147483647, or under -2147483647'
        when octet_length((item -> 'variables')::text) > 1048576 then 'the variables that it sees are over 1 MiB, more than a task can have'
    end
$$;
