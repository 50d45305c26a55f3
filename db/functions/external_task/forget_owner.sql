-- forget_owner: nobody held a task last any more; one that rests after a failure is READY at once, or when its instance is resumed.
create or replace function celeriac.forget_owner(held celeriac.queue, moment timestamptz) returns void
language plpgsql volatile as $$
#variable_conflict use_column
begin
    update celeriac.queue q
       set last_owner = null, last_principal = null, last_until = null, held_until = case when q.held_until is not null then least(q.held_until, moment) end
     where q.task_id = held.task_id;
    if held.state = 'SCHEDULED' and held.held_until is null then
        update celeriac.queue q
           set run_at = moment, turn_at = moment, state = celeriac.ready_state(held.task_type, held.concurrency_key, held.version)
         where q.task_id = held.task_id;
        perform celeriac.ring(array[held.task_type]);
    end if;
end $$;
