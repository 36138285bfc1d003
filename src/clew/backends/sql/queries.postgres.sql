-- Statements of PostgreSQL that differ from those of the same name in queries.sql, and statements that only it needs.

-- name: begin
BEGIN

-- name: begin_read
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: begin_write
BEGIN; SELECT pg_advisory_xact_lock(%d); SELECT number FROM epoch

-- name: commit_write
SELECT pg_logical_emit_message(true, 'clew', '')
WHERE pg_current_xact_id_if_assigned() IS NULL AND NOT pg_is_in_recovery(); COMMIT

-- name: add_tree
INSERT INTO trees (workspace, created_at) VALUES (?, ?) RETURNING tree

-- name: add_run
INSERT INTO runs (run, tree, parent, derived, depth, carried, tip, closed, wrapped_key, mac)
SELECT (v.tree & 255) << 31 | nextval('run_numbers'), v.*
FROM (VALUES (?::bigint, ?::bigint, ?::bigint, ?::bigint, ?::bigint, ?::bigint, ?::bigint, ?::bytea, ?::bytea)) AS v (tree)
RETURNING run

-- name: add_node
INSERT INTO nodes (pos, facts, id, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: add_ref
INSERT INTO refs (ref, workspace, kind, key, owner, tree, head, head_id, version, created_at, active_at, rank,
                  trashed_at, expires_at, hold, look, wrapped_key, mac, data)
SELECT (coalesce(v.tree, 0) & 255) << 31 | nextval('ref_numbers'), v.*
FROM (VALUES (?, ?, ?::bytea, ?::bigint, ?::bigint, ?::bigint, ?::bytea, ?::bigint, ?::bigint, ?::bigint, ?::bigint,
              ?::bigint, ?::bigint, ?::bigint, ?::bytea, ?::bytea, ?::bytea, ?::bytea))
     AS v (workspace, kind, key, owner, tree)
ON CONFLICT DO NOTHING RETURNING ref

-- name: add_log
INSERT INTO log (pos, created_at, id, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: add_quarantined
INSERT INTO quarantine (pos, created_at, why, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: add_blob
INSERT INTO blobs (blob, tree, look, size, chunks, created_at, wrapped_key, mac)
SELECT (v.tree & 255) << 31 | nextval('blob_numbers'), v.*
FROM (VALUES (?::bigint, ?::bytea, ?::bigint, ?::bigint, ?::bigint, ?::bytea, ?::bytea)) AS v (tree)
RETURNING blob

-- name: forget
INSERT INTO forgotten (low, high) VALUES (?, ?) RETURNING number

-- name: forget_old
DELETE FROM forgotten USING (SELECT ?::bigint AS below) AS v
WHERE v.below > 0 AND mod(v.below, 1000) = 0 -- rarely, because counting takes time
  AND number <= (SELECT number FROM forgotten ORDER BY number DESC OFFSET 100000 LIMIT 1)

-- name: forgotten
SELECT number, low, high FROM forgotten WHERE number > ? ORDER BY number LIMIT nullif(?, -1)

-- name: growth
SELECT (SELECT id FROM nodes WHERE ord = ?), (SELECT coalesce(max(ord), 0) FROM nodes),
       (SELECT coalesce(min(number), 1) FROM forgotten),
       coalesce(pg_sequence_last_value(pg_get_serial_sequence('forgotten', 'number')::regclass), 0)

-- name: keys_otherwise
SELECT EXISTS (SELECT 1 FROM runs
               WHERE substr(wrapped_key, 1, ?::int) IS DISTINCT FROM ?::bytea OR length(wrapped_key) <> ?)
    OR EXISTS (SELECT 1 FROM refs
               WHERE substr(wrapped_key, 1, ?::int) IS DISTINCT FROM ?::bytea OR length(wrapped_key) <> ?)
    OR EXISTS (SELECT 1 FROM blobs
               WHERE substr(wrapped_key, 1, ?::int) IS DISTINCT FROM ?::bytea OR length(wrapped_key) <> ?)

-- name: nodes_at
SELECT u.tree, u.depth, u.carried, u.wrapped_key,
       (SELECT p.id FROM nodes p WHERE p.pos = CASE WHEN n.pos & 16777215 <> 0 THEN n.pos - 1 ELSE u.parent END),
       {node}
FROM nodes n JOIN runs u ON u.run = n.pos >> 24 WHERE n.pos = ANY (?)

-- name: stored
SELECT id FROM nodes WHERE id = ANY (?::bytea[])

-- name: stored_log
SELECT id FROM log WHERE id = ANY (?::bytea[])

-- name: tree_states
SELECT t.tree, t.workspace, EXISTS (SELECT 1 FROM refs r WHERE r.tree = t.tree AND r.trashed_at IS NOT NULL)
FROM trees t WHERE t.tree = ANY (?)

-- name: runs_at
SELECT {run} FROM runs u WHERE u.run = ANY (?)

-- name: keys_beside
SELECT w.key,
       (SELECT r.key FROM refs r WHERE r.workspace = ? AND r.kind = ? AND r.key < w.key ORDER BY r.key DESC LIMIT 1),
       (SELECT r.key FROM refs r WHERE r.workspace = ? AND r.kind = ? AND r.key > w.key ORDER BY r.key LIMIT 1)
FROM unnest(?::bytea[]) AS w (key)

-- name: refs_label
SELECT {ref} FROM refs r
WHERE r.workspace = ? AND r.kind = ? AND r.trashed_at IS NULL AND (r.rank, r.ref) < (?, ?)
  AND EXISTS (SELECT 1 FROM labels WHERE look = ? AND ref = r.ref) AND (?::bytea IS NULL OR r.look = ?)
ORDER BY r.rank DESC, r.ref DESC LIMIT ?

-- name: count_refs
SELECT count(*) FROM refs r
WHERE r.workspace = ? AND r.kind = ? AND r.trashed_at IS NULL
  AND (r.hold <> 0 OR coalesce(r.expires_at > ? OR r.expires_at < 0 AND r.active_at - r.expires_at > ?, true))
  AND (?::bytea IS NULL OR r.look = ?)

-- name: count_label
SELECT count(*) FROM labels l JOIN refs r ON r.ref = l.ref
WHERE l.look = ? AND r.workspace = ? AND r.kind = ? AND r.trashed_at IS NULL
  AND (r.hold <> 0 OR coalesce(r.expires_at > ? OR r.expires_at < 0 AND r.active_at - r.expires_at > ?, true))
  AND (?::bytea IS NULL OR r.look = ?)

-- name: extend
SELECT extend(?, ?, ?, ?, ?, ?, ?, ?::bytea, ?::bytea, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: extend_all
SELECT extend_all(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: set_ref
WITH done AS (
    UPDATE refs SET owner = ?, head = ?, head_id = ?, version = ?, active_at = ?, rank = ?, trashed_at = ?,
                    expires_at = ?, hold = ?, look = ?, wrapped_key = ?, mac = ?, data = ?
    WHERE ref = ? AND version = ? RETURNING ref, version
)
SELECT tell(ref, version) FROM done

-- name: move_ref
WITH done AS (
    UPDATE refs SET head = ?, head_id = ?, version = ?, active_at = ?, mac = ? WHERE ref = ? AND version = ?
    RETURNING ref, version
)
SELECT tell(ref, version) FROM done

-- name: move_ref_up
WITH done AS (
    UPDATE refs SET head = ?, head_id = ?, version = ?, active_at = ?, rank = ?, mac = ? WHERE ref = ? AND version = ?
    RETURNING ref, version
)
SELECT tell(ref, version) FROM done

-- name: tell_gone
SELECT tell(?, 0)

-- name: watch
INSERT INTO watched (ref, until)
SELECT ref, now() + make_interval(secs => ?) FROM refs WHERE ref = ANY (?) ORDER BY ref
ON CONFLICT (ref) DO UPDATE SET until = excluded.until

-- name: unwatched
DELETE FROM watched WHERE ref IN (SELECT ref FROM watched WHERE until < now() FOR UPDATE SKIP LOCKED)

-- name: channel
SELECT 'clew_' || 'refs'::regclass::oid

-- name: versions
SELECT ref, version FROM refs WHERE ref = ANY (?)

-- name: oldest
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint

-- name: now
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint

-- name: readers
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL
  AND backend_type = 'client backend' AND age(backend_xmin) > age((? & 4294967295)::text::xid)

-- name: tail
SELECT {node}, beside.*
FROM refs f
CROSS JOIN LATERAL (
    SELECT * FROM nodes WHERE pos BETWEEN f.head >> 24 << 24 AND f.head ORDER BY pos DESC LIMIT ?
) AS n
LEFT JOIN LATERAL (
    SELECT {ref}, {run} FROM refs r JOIN runs u ON u.run = r.head >> 24 WHERE r.ref = f.ref AND n.pos = f.head
) AS beside ON true
WHERE f.workspace = ? AND f.kind = ? AND f.key = ? ORDER BY n.pos DESC

-- name: settled
BEGIN; SET LOCAL lock_timeout = 500; SELECT pg_advisory_xact_lock(%d); SELECT coalesce(max(ord), 0) FROM nodes

-- name: size
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'

-- name: search_edge
SELECT coalesce(max(ord), 0) FROM search_edge WHERE workspace = ? AND mode = ?

-- name: add_words
INSERT INTO search (workspace, mode, pos, id, role, created_at, lexemes)
SELECT ?, ?, v.pos, v.id, v.role, v.created_at, v.lexemes::tsvector
FROM unnest(?::bigint[], ?::bytea[], ?::bigint[], ?::bigint[], ?::text[]) AS v (pos, id, role, created_at, lexemes)
JOIN nodes n ON n.pos = v.pos AND n.id = v.id
FOR KEY SHARE OF n -- a concurrent deletion of a node waits for this, and then deletes these words, too
ON CONFLICT DO NOTHING

-- name: move_edge
INSERT INTO search_edge (workspace, mode, ord) VALUES (?, ?, ?)
ON CONFLICT (workspace, mode) DO UPDATE SET ord = greatest(search_edge.ord, excluded.ord)

-- name: lower_edge
UPDATE search_edge SET ord = least(ord, (SELECT n.ord - 1 FROM nodes n WHERE n.pos = ?))
WHERE workspace = (SELECT t.workspace FROM runs u JOIN trees t ON t.tree = u.tree WHERE u.run = ?::bigint >> 24)

-- name: find_words
SELECT s.pos, s.id, CASE WHEN ?::boolean THEN 0 ELSE ts_rank(s.lexemes, q.query) END::float8
FROM search s, (SELECT ?::text::tsquery AS query) AS q
WHERE s.workspace = ? AND s.mode = ? AND s.lexemes @@ q.query
  AND (?::bigint IS NULL OR s.role = ?) AND s.created_at >= ? AND s.created_at < ?
  AND (?::bigint[] IS NULL OR EXISTS (SELECT 1 FROM unnest(?::bigint[], ?::bigint[]) AS w (low, high)
                                      WHERE s.pos BETWEEN w.low AND w.high))
ORDER BY 3 DESC, s.created_at DESC, s.pos DESC LIMIT ? OFFSET ?

-- name: find_all
SELECT s.pos, s.id, 0::float8
FROM search s
WHERE s.workspace = ? AND s.mode = ?
  AND (?::bigint IS NULL OR s.role = ?) AND s.created_at >= ? AND s.created_at < ?
  AND (?::bigint[] IS NULL OR EXISTS (SELECT 1 FROM unnest(?::bigint[], ?::bigint[]) AS w (low, high)
                                      WHERE s.pos BETWEEN w.low AND w.high))
ORDER BY s.created_at DESC, s.pos DESC LIMIT ? OFFSET ?

-- name: drop_words
DELETE FROM search WHERE pos BETWEEN ? AND ?

-- name: clear_words
DELETE FROM search

-- name: clear_edges
DELETE FROM search_edge
