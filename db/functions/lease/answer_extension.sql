-- answer_extension: LOCKED -> LOCKED, one item of extend_leases: prolongs the lease, or says why not.
create or replace function celeriac.answer_extension(
    ordinal integer, task_id uuid, worker_id text, fencing_token bigint, lock_duration_ms bigint, principal text, only_types text[])
returns celeriac.extension_answer
language plpgsql volatile as $$
declare
    why record;
begin
    if celeriac.prolong_lease(task_id, worker_id, fencing_token, lock_duration_ms, principal, only_types) is not null then
        return (ordinal, task_id, lock_duration_ms, null, null)::celeriac.extension_answer;
    end if;
    select * into why from celeriac.lease_refusal(task_id, worker_id, fencing_token, principal, only_types);
    return (ordinal, task_id, null, why.code, why.message)::celeriac.extension_answer;
end $$;
