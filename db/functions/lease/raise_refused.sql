-- raise_refused: raises what a batch answered for its only item; nothing when it holds.
create or replace function celeriac.raise_refused(code text, message text, task_id uuid, worker_id text, fencing_token bigint)
returns void language plpgsql immutable as $$
begin
    if code is not null then
        perform celeriac.refuse(code, message, null,
            jsonb_build_object('task_id', task_id, 'worker_id', worker_id, 'fencing_token', fencing_token));
    end if;
end $$;
