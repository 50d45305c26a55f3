-- forget_steps: a task has done nothing yet, as far as anybody can tell: its steps, operations and compensations are gone.
create or replace function celeriac.forget_steps(task_id uuid) returns void
language plpgsql volatile as $$
begin
    delete from celeriac.step s where s.task_id = forget_steps.task_id;
    delete from celeriac.operation o where o.task_id = forget_steps.task_id;
    delete from celeriac.compensation c where c.task_id = forget_steps.task_id;
    delete from celeriac.saga s where s.task_id = forget_steps.task_id;
end $$;
