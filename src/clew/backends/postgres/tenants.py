"""Row-level security for tenants: see `clew.store.tenants`."""

from __future__ import annotations

from psycopg import sql

from clew.backends.postgres.connection import Connection
from clew.backends.sql import script

_WRITTEN = (
    "quarantine", "labels", "log", "chunks", "uses", "objects", "search_edge", "header", "watched",
)  # fmt: skip
_NUMBERED = {
    "trees": "DELETE, INSERT (workspace, created_at)",
    "nodes": "DELETE, INSERT (pos, facts, id, body), UPDATE (body)",
    "forgotten": "DELETE, INSERT (low, high)",
    "search": "DELETE, INSERT",
    "runs": "DELETE, INSERT, UPDATE (parent, derived, tip, closed, wrapped_key, mac)",
    "blobs": "DELETE, INSERT, UPDATE (look, size, chunks, wrapped_key, mac)",
    "refs": "DELETE, INSERT, UPDATE (owner, head, head_id, version, active_at, rank, trashed_at, expires_at, hold, "
    "look, wrapped_key, mac, data)",
}
"""Tables that number the rows of all tenants together, and the rights of a tenant. It cannot choose numbers, nor move
rows to positions of other tenants."""
_COUNTERS = ("trees_tree_seq", "forgotten_number_seq")
"""Sequences of identity columns, which draw from them without rights of the tenant."""


def isolate(conn: Connection, schema: str) -> None:
    """Enables the policies, and grants the admitted roles their rights."""
    conn.execute(script("tenants.postgres.sql").encode(), prepare=False)
    for (role,) in conn.execute("SELECT DISTINCT role FROM tenants JOIN pg_roles ON rolname = role").fetchall():
        _grant(conn, schema, role)


def admit(conn: Connection, schema: str, role: str, workspace: str) -> None:
    """Gives a role access to a workspace, and grants the necessary rights."""
    with conn.transaction():
        _grant(conn, schema, role)
        conn.execute("INSERT INTO tenants (role, workspace) VALUES (%s, %s) ON CONFLICT DO NOTHING", (role, workspace))


def renew(conn: Connection, schema: str) -> None:
    """If the store has tenants, updates their policies and rights to the newest format."""
    if conn.execute("SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'tenants'", (schema,)).fetchone():
        isolate(conn, schema)


def _grant(conn: Connection, schema: str, role: str) -> None:
    who, where = sql.Identifier(role), sql.Identifier(schema)
    conn.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(where, who))
    conn.execute(sql.SQL("GRANT SELECT ON epoch, tenants TO {}").format(who))
    tables = sql.SQL(", ").join(map(sql.Identifier, _WRITTEN))
    conn.execute(sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO {}").format(tables, who))
    for table, rights in _NUMBERED.items():  # an older clew gave more
        name = sql.Identifier(table)
        conn.execute(sql.SQL("REVOKE ALL ON {} FROM {}").format(name, who))
        conn.execute(sql.SQL("GRANT SELECT, {} ON {} TO {}").format(sql.SQL(rights), name, who))
    conn.execute(sql.SQL("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {} TO {}").format(where, who))
    counters = sql.SQL(", ").join(map(sql.Identifier, _COUNTERS))
    conn.execute(sql.SQL("REVOKE USAGE, UPDATE ON SEQUENCE {} FROM {}").format(counters, who))


def dismiss(conn: Connection, schema: str, role: str, workspace: str | None) -> None:
    """Removes a role's access to one workspace; with None, all its rights."""
    who, where = sql.Identifier(role), sql.Identifier(schema)
    with conn.transaction():
        conn.execute("DELETE FROM tenants WHERE role = %s AND workspace = coalesce(%s, workspace)", (role, workspace))
        if workspace is None:
            conn.execute(sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA {} FROM {}").format(where, who))
            conn.execute(sql.SQL("REVOKE ALL ON ALL SEQUENCES IN SCHEMA {} FROM {}").format(where, who))
            conn.execute(sql.SQL("REVOKE USAGE ON SCHEMA {} FROM {}").format(where, who))
