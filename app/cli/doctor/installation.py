"""Checks of what `celeriac migrate` installs: schema, functions, roles and their rights."""

from typing import TYPE_CHECKING

from app.cli.database import select
from app.cli.doctor.finding import Finding

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from app.settings import Settings

ROLES = ("celeriac_api", "celeriac_fleet")

# Beyond EXECUTE on functions and SELECT on views a role must hold nothing in our schema. Rights that come with a
# membership or from PUBLIC count as well, hence has_table_privilege instead of a look at the ACL.
EXCESS = """
select r.rolname as role, c.relname as relation, p.privilege
  from pg_roles r
 cross join pg_class c
  join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'celeriac'
 cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) as p(privilege)
 where r.rolname = any (:roles)
   and c.relkind in ('r', 'p', 'v', 'm')
   and not (p.privilege = 'SELECT' and c.relkind in ('v', 'm'))
   and has_table_privilege(r.oid, c.oid, p.privilege)
 order by 1, 2, 3
 limit 20
"""


def is_migrated(conn: "Connection", _: "Settings") -> list[Finding]:
    """Functions and views of this very release; without them no other check means anything."""
    import db.migrate

    if select(conn, "select to_regclass('celeriac.health') is null as missing")[0]["missing"]:
        what = "Celeriac is not installed in this database"
        return [Finding("is_migrated", what, "schema celeriac", "run celeriac migrate")]
    if select(conn, "select code_hash from celeriac.health")[0]["code_hash"] == db.migrate.code_hash():
        return []
    what = "functions and views are those of another release than this command"
    fix = "run celeriac migrate with the newest release in use"
    return [Finding("is_migrated", what, "schema celeriac", fix)]


def tables_are_current(conn: "Connection", _: "Settings") -> list[Finding]:
    """Tables of the newest revision of this release."""
    revisions = {row["version_num"] for row in select(conn, "select version_num from celeriac.revision")}
    if revisions == newest_revisions():
        return []
    what = f"the tables are of revision {', '.join(sorted(revisions)) or 'none'}"
    return [Finding("tables_are_current", what, "schema celeriac", "run celeriac migrate")]


def roles_exist(conn: "Connection", _: "Settings") -> list[Finding]:
    rows = select(conn, "select rolname from pg_roles where rolname = any (:roles)", roles=list(ROLES))
    found = {row["rolname"] for row in rows}
    fix = "run celeriac migrate as a role that may create roles"
    return [
        Finding("roles_exist", f"the role {role} is missing", "database", fix) for role in ROLES if role not in found
    ]


def roles_hold_no_more(conn: "Connection", _: "Settings") -> list[Finding]:
    """A role that writes tables can bend the state machine, which lives in the functions."""
    mighty = select(
        conn,
        "select rolname from pg_roles where rolname = any (:roles) and (rolsuper or rolcreaterole or rolbypassrls)",
        roles=list(ROLES),
    )
    findings = [
        Finding(
            "roles_hold_no_more",
            f"{row['rolname']} is more than an ordinary role",
            "database",
            f"alter role {row['rolname']} nosuperuser nocreaterole nobypassrls",
        )
        for row in mighty
    ]
    for row in select(conn, EXCESS, roles=list(ROLES)):
        place = f"celeriac.{row['relation']}"
        fix = f"revoke {row['privilege'].lower()} on {place} from {row['role']} (or from what it is a member of)"
        findings.append(Finding("roles_hold_no_more", f"{row['role']} may {row['privilege']}", place, fix))
    return findings


def newest_revisions() -> set[str]:
    """The heads of this release's migrations."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    import db.migrate

    config = Config()
    config.set_main_option("script_location", str(db.migrate.HERE / "migrations"))
    return set(ScriptDirectory.from_config(config).get_heads())


CHECKS = [tables_are_current, roles_exist, roles_hold_no_more]
