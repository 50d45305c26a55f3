-- refuse: raises one of our refusals; db/errors.py maps each SQLSTATE to an exception, a status and a code.
-- `field` names the input that is at fault; `detail` is for programs, as JSON text.
create or replace function celeriac.refuse(code text, message text, field text default null, detail jsonb default null)
returns void language plpgsql as $$
declare
    sqlstate_of constant jsonb := '{
        "forbidden": "TK403", "not_found": "TK404", "too_large": "TK413", "invalid": "TK422",
        "lease_lost": "TK901", "lease_expired": "TK902", "stale_token": "TK903",
        "already_ended": "TK904", "canceled": "TK905", "idempotency_conflict": "TK906",
        "suspended": "TK907"}';
begin
    raise exception using
        errcode = sqlstate_of ->> refuse.code,
        message = refuse.message,
        detail = coalesce(refuse.detail::text, ''),
        column = coalesce(refuse.field, '');
end $$;
