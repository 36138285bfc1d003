"""Who may see which workspace: see `clew.tenants`."""

from __future__ import annotations

from psycopg import sql

from clew.backends.postgres.connection import Connection
from clew.backends.sql import script

_WRITTEN = (
    "trees", "refs", "runs", "nodes", "quarantine", "labels", "log", "blobs", "chunks", "uses", "objects",
    "search", "search_edge", "forgotten", "header", "watched",
)  # fmt: skip


def isolate(conn: Connection) -> None:
    """Switches the policies on."""
    with conn.transaction():
        conn.execute(script("tenants.postgres.sql").encode(), prepare=False)


def admit(conn: Connection, schema: str, role: str, workspace: str) -> None:
    """Lets a role into a workspace, and gives it what rights it needs for that."""
    with conn.transaction():
        _grant(conn, schema, role)
        conn.execute("INSERT INTO tenants (role, workspace) VALUES (%s, %s) ON CONFLICT DO NOTHING", (role, workspace))


def renew(conn: Connection, schema: str) -> None:
    """Where there are tenants, the policies and their rights are what the newest format needs."""
    if conn.execute("SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'tenants'", (schema,)).fetchone():
        isolate(conn)
        for (role,) in conn.execute("SELECT DISTINCT role FROM tenants JOIN pg_roles ON rolname = role").fetchall():
            _grant(conn, schema, role)


def _grant(conn: Connection, schema: str, role: str) -> None:
    who, where = sql.Identifier(role), sql.Identifier(schema)
    conn.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(where, who))
    conn.execute(sql.SQL("GRANT SELECT ON epoch, tenants TO {}").format(who))
    tables = sql.SQL(", ").join(map(sql.Identifier, _WRITTEN))
    conn.execute(sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO {}").format(tables, who))
    conn.execute(sql.SQL("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {} TO {}").format(where, who))


def dismiss(conn: Connection, schema: str, role: str, workspace: str | None) -> None:
    """Takes one workspace from a role, or everything."""
    who, where = sql.Identifier(role), sql.Identifier(schema)
    with conn.transaction():
        conn.execute("DELETE FROM tenants WHERE role = %s AND workspace = coalesce(%s, workspace)", (role, workspace))
        if workspace is None:
            conn.execute(sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA {} FROM {}").format(where, who))
            conn.execute(sql.SQL("REVOKE ALL ON ALL SEQUENCES IN SCHEMA {} FROM {}").format(where, who))
            conn.execute(sql.SQL("REVOKE USAGE ON SCHEMA {} FROM {}").format(where, who))
