-- The named statements of SQLite, and of PostgreSQL unless queries.postgres.sql has one of the same name. Question marks
-- are parameters, in reading order. {run}, {node}, {ref}, {blob} are the column lists of the row types in clew.backends.
-- A limit is `?+0`: SQLite 3.47 and newer prepare a statement with `LIMIT ?` again at every call.

-- name: state
SELECT number, format, state, key_id FROM epoch

-- name: epoch
SELECT number FROM epoch

-- name: header
SELECT value FROM header WHERE name = ?

-- name: headers
SELECT name, value FROM header WHERE substr(name, 1, length(?)) = ? ORDER BY name

-- name: set_header
INSERT INTO header (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: drop_header
DELETE FROM header WHERE name = ?

-- name: set_state
UPDATE epoch SET number = number + 1, state = ?, key_id = ?

-- name: sizes
SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM nodes), (SELECT count(*) FROM refs),
       (SELECT count(*) FROM log), (SELECT count(*) FROM blobs), (SELECT count(*) FROM chunks),
       (SELECT count(*) FROM quarantine), (SELECT count(*) FROM objects)

-- name: empty
SELECT NOT EXISTS (SELECT 1 FROM trees) AND NOT EXISTS (SELECT 1 FROM refs)

-- name: node
SELECT u.tree, u.depth, u.carried, u.wrapped_key,
       (SELECT p.id FROM nodes p WHERE p.pos = CASE WHEN n.pos & 16777215 <> 0 THEN n.pos - 1 ELSE u.parent END),
       {node}
FROM nodes n JOIN runs u ON u.run = n.pos >> 24 WHERE n.id = ?

-- name: node_at
SELECT u.tree, u.depth, u.carried, u.wrapped_key,
       (SELECT p.id FROM nodes p WHERE p.pos = CASE WHEN n.pos & 16777215 <> 0 THEN n.pos - 1 ELSE u.parent END),
       {node}
FROM nodes n JOIN runs u ON u.run = n.pos >> 24 WHERE n.pos = ?

-- name: nodes_at
WITH wanted (pos) AS (VALUES (?))
SELECT u.tree, u.depth, u.carried, u.wrapped_key,
       (SELECT p.id FROM nodes p WHERE p.pos = CASE WHEN n.pos & 16777215 <> 0 THEN n.pos - 1 ELSE u.parent END),
       {node}
FROM wanted w CROSS JOIN nodes n ON n.pos = w.pos JOIN runs u ON u.run = n.pos >> 24

-- name: places_after
SELECT u.tree, u.depth, u.carried, u.wrapped_key,
       (SELECT p.id FROM nodes p WHERE p.pos = CASE WHEN n.pos & 16777215 <> 0 THEN n.pos - 1 ELSE u.parent END),
       {node}
FROM nodes n JOIN runs u ON u.run = n.pos >> 24 WHERE n.pos > ? ORDER BY n.pos LIMIT ?+0

-- name: lengths_nodes
SELECT coalesce(length(body), 0) FROM nodes WHERE pos > ? ORDER BY pos LIMIT ?+0

-- name: lengths_quarantine
SELECT coalesce(length(body), 0) FROM quarantine WHERE pos > ? ORDER BY pos LIMIT ?+0

-- name: lengths_refs
SELECT coalesce(length(data), 0) FROM refs WHERE ref > ? ORDER BY ref LIMIT ?+0

-- name: lengths_log
SELECT coalesce(length(body), 0) FROM log WHERE pos > ? ORDER BY pos LIMIT ?+0

-- name: lengths_chunks
SELECT coalesce(length(body), 0) FROM chunks WHERE pos > ? ORDER BY pos LIMIT ?+0

-- name: set_body
UPDATE nodes SET body = ? WHERE pos = ?

-- name: ids_between
SELECT id FROM nodes WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?+0

-- name: id_before
SELECT id FROM nodes WHERE id < ? ORDER BY id DESC LIMIT 1

-- name: id_after
SELECT id FROM nodes WHERE id > ? ORDER BY id LIMIT 1

-- name: lineage
WITH RECURSIVE up (n, run, seq) AS (
    VALUES (0, ? >> 24, ? & 16777215)
    UNION ALL
    SELECT n + 1, u.parent >> 24, u.parent & 16777215 FROM up JOIN runs u ON u.run = up.run
    WHERE (u.parent >> 24 & 2147483647) < (u.run & 2147483647) -- the parent of a run is older; this prevents endless loops in damaged rows
)
SELECT up.seq, {run} FROM up JOIN runs u ON u.run = up.run ORDER BY up.n DESC

-- name: nodes_between
SELECT {node} FROM nodes n WHERE n.pos BETWEEN ? AND ? ORDER BY n.pos

-- name: bodies_between
SELECT facts, id, body FROM nodes WHERE pos BETWEEN ? AND ? ORDER BY pos

-- name: by_ord_up
SELECT u.tree, u.depth, u.carried, u.wrapped_key,
       (SELECT p.id FROM nodes p WHERE p.pos = CASE WHEN n.pos & 16777215 <> 0 THEN n.pos - 1 ELSE u.parent END),
       {node}, n.ord
FROM nodes n JOIN runs u ON u.run = n.pos >> 24 JOIN trees t ON t.tree = u.tree
WHERE n.ord > ? AND n.ord < ? AND t.workspace = coalesce(?, t.workspace) ORDER BY n.ord LIMIT ?+0 OFFSET ?

-- name: by_ord_down
SELECT u.tree, u.depth, u.carried, u.wrapped_key,
       (SELECT p.id FROM nodes p WHERE p.pos = CASE WHEN n.pos & 16777215 <> 0 THEN n.pos - 1 ELSE u.parent END),
       {node}, n.ord
FROM nodes n JOIN runs u ON u.run = n.pos >> 24 JOIN trees t ON t.tree = u.tree
WHERE n.ord > ? AND n.ord < ? AND t.workspace = coalesce(?, t.workspace) ORDER BY n.ord DESC LIMIT ?+0 OFFSET ?

-- name: growth
SELECT (SELECT id FROM nodes WHERE ord = ?), (SELECT coalesce(max(ord), 0) FROM nodes),
       (SELECT coalesce(min(number), 1) FROM forgotten),
       coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'forgotten'), 0)

-- name: ord_id
SELECT id FROM nodes WHERE ord = ?

-- name: run
SELECT {run} FROM runs u WHERE u.run = ?

-- name: runs_after
SELECT (SELECT id FROM nodes WHERE pos = u.run << 24 | u.tip), {run} FROM runs u WHERE u.run > ? ORDER BY u.run LIMIT ?+0

-- name: rekey_run
UPDATE runs SET wrapped_key = ?, mac = ? WHERE run = ?

-- name: keys_otherwise
SELECT EXISTS (SELECT 1 FROM runs WHERE substr(wrapped_key, 1, ?) IS NOT ? OR length(wrapped_key) != ?)
    OR EXISTS (SELECT 1 FROM refs WHERE substr(wrapped_key, 1, ?) IS NOT ? OR length(wrapped_key) != ?)
    OR EXISTS (SELECT 1 FROM blobs WHERE substr(wrapped_key, 1, ?) IS NOT ? OR length(wrapped_key) != ?)

-- name: runs_from
SELECT {run} FROM runs u WHERE u.parent BETWEEN ? AND ?
UNION
SELECT {run} FROM runs u WHERE u.derived BETWEEN ? AND ?

-- name: last_pos
SELECT max(pos) FROM nodes WHERE pos BETWEEN ? AND ?

-- name: add_tree
INSERT INTO trees (workspace, created_at) VALUES (?, ?)

-- name: add_run
INSERT INTO runs (tree, parent, derived, depth, carried, tip, closed, wrapped_key, mac) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: set_run
UPDATE runs SET parent = ?, derived = ?, tip = ?, closed = ?, wrapped_key = ?, mac = ? WHERE run = ?

-- name: add_node
INSERT INTO nodes (pos, facts, id, body, ord)
VALUES (?, ?, ?, ?, 1 + max((SELECT ord_floor FROM epoch), (SELECT coalesce(max(ord), 0) FROM nodes)))

-- name: raise_floor
UPDATE epoch SET ord_floor = max(ord_floor, (SELECT coalesce(max(ord), 0) FROM nodes))

-- name: body_bytes
SELECT coalesce(sum(length(body)), 0) FROM (
    SELECT body FROM nodes WHERE pos BETWEEN ? AND ? UNION ALL SELECT body FROM quarantine WHERE pos BETWEEN ? AND ?
) AS bodies

-- name: delete_nodes
DELETE FROM nodes WHERE pos BETWEEN ? AND ?

-- name: quarantined
SELECT pos, created_at, why, body FROM quarantine WHERE pos = ?

-- name: quarantined_after
SELECT pos, created_at, why, body FROM quarantine WHERE pos > ? ORDER BY pos LIMIT ?+0

-- name: add_quarantined
INSERT INTO quarantine (pos, created_at, why, body) VALUES (?, ?, ?, ?)

-- name: set_quarantined
UPDATE quarantine SET body = ? WHERE pos = ?

-- name: drop_quarantined
DELETE FROM quarantine WHERE pos BETWEEN ? AND ?

-- name: forget
INSERT INTO forgotten (low, high) VALUES (?, ?)

-- name: forget_old
DELETE FROM forgotten WHERE number <= ?

-- name: forgotten
SELECT number, low, high FROM forgotten WHERE number > ? ORDER BY number LIMIT ?+0

-- name: delete_run
DELETE FROM runs WHERE run = ?

-- name: tree_in_use
SELECT EXISTS (SELECT 1 FROM runs WHERE tree = ?) OR EXISTS (SELECT 1 FROM refs WHERE tree = ?)

-- name: delete_tree
DELETE FROM trees WHERE tree = ?

-- name: tree_workspace
SELECT workspace FROM trees WHERE tree = ?

-- name: tree_state
SELECT t.tree, t.workspace, EXISTS (SELECT 1 FROM refs r WHERE r.tree = t.tree AND r.trashed_at IS NOT NULL)
FROM trees t WHERE t.tree = ?

-- name: head_state
SELECT e.number, r.key, r.version, r.active_at, r.rank, r.trashed_at, r.mac, r.head_id, r.wrapped_key,
       coalesce((SELECT max(rank) FROM refs WHERE workspace = r.workspace AND kind = r.kind AND trashed_at IS NULL), 0),
       r.tree, h.pos, h.id, u.depth, u.carried, h.facts,
       u.closed = 0 AND NOT EXISTS (SELECT 1 FROM nodes WHERE pos = r.head + 1),
       u.wrapped_key
FROM refs r LEFT JOIN runs u ON u.run = r.head >> 24 LEFT JOIN nodes h ON h.pos = r.head, epoch e
WHERE r.ref = ?

-- name: insert_point
SELECT u.tree, n.pos, n.id, u.depth, u.carried, n.facts,
       u.closed = 0 AND NOT EXISTS (SELECT 1 FROM nodes WHERE pos = n.pos + 1),
       u.wrapped_key
FROM nodes n JOIN runs u ON u.run = n.pos >> 24 WHERE n.id = ?

-- name: ref
SELECT {ref} FROM refs r WHERE r.workspace = ? AND r.kind = ? AND r.key = ?

-- name: refs_named
SELECT {ref} FROM refs r WHERE r.ref IN (SELECT ref FROM refs WHERE kind = ? AND key = ?) ORDER BY r.ref

-- name: ref_at
SELECT {ref} FROM refs r WHERE r.ref = ?

-- name: version
SELECT ref, version FROM refs WHERE ref = ?

-- name: keys_between
SELECT key FROM refs WHERE workspace = ? AND kind = ? AND key BETWEEN ? AND ? ORDER BY key LIMIT ?+0

-- name: key_before
SELECT key FROM refs WHERE workspace = ? AND kind = ? AND key < ? ORDER BY key DESC LIMIT 1

-- name: key_after
SELECT key FROM refs WHERE workspace = ? AND kind = ? AND key > ? ORDER BY key LIMIT 1

-- name: refs_recent
SELECT {ref} FROM refs r
WHERE r.workspace = ? AND r.kind = ? AND r.trashed_at IS NULL AND (r.rank, r.ref) < (?, ?)
ORDER BY r.rank DESC, r.ref DESC LIMIT ?+0

-- name: refs_look
SELECT {ref} FROM refs r
WHERE r.workspace = ? AND r.kind = ? AND r.look = ? AND r.trashed_at IS NULL AND (r.rank, r.ref) < (?, ?)
ORDER BY r.rank DESC, r.ref DESC LIMIT ?+0

-- name: refs_label
SELECT {ref} FROM refs r
WHERE r.workspace = ? AND r.kind = ? AND r.trashed_at IS NULL AND (r.rank, r.ref) < (?, ?)
  AND EXISTS (SELECT 1 FROM labels WHERE look = ? AND ref = r.ref) AND (? IS NULL OR r.look = ?)
ORDER BY r.rank DESC, r.ref DESC LIMIT ?+0

-- name: label_count
-- Counts the refs of a label up to a limit.
SELECT count(*) FROM (SELECT 1 FROM labels WHERE look = ? LIMIT ?+0)

-- name: refs_label_few
-- For a label of few refs, which are sorted. Without CROSS, SQLite may walk all refs by rank.
SELECT {ref} FROM labels l CROSS JOIN refs r ON r.ref = l.ref
WHERE l.look = ? AND r.workspace = ? AND r.kind = ? AND r.trashed_at IS NULL AND (r.rank, r.ref) < (?, ?)
  AND (? IS NULL OR r.look = ?)
ORDER BY r.rank DESC, r.ref DESC LIMIT ?+0

-- name: refs_trashed
SELECT {ref} FROM refs r
WHERE r.workspace = ? AND r.trashed_at IS NOT NULL AND (r.trashed_at, r.ref) < (?, ?)
  AND NOT EXISTS (SELECT 1 FROM refs o WHERE o.ref = r.owner AND o.trashed_at IS NOT NULL)
ORDER BY r.trashed_at DESC, r.ref DESC LIMIT ?+0

-- name: count_refs
-- Counts all from the index without reading rows, then subtracts those that have expired.
WITH v (workspace, kind, now, also_now, look, also_look) AS (VALUES (?, ?, ?, ?, ?, ?))
SELECT (
    SELECT count(*) FROM refs r WHERE r.workspace = v.workspace AND r.kind = v.kind AND r.trashed_at IS NULL
    AND (v.look IS NULL OR r.look = v.also_look)
) - (
    SELECT count(*) FROM refs r
    WHERE r.expires_at IS NOT NULL
    AND NOT (r.hold OR r.expires_at > v.now OR r.expires_at < 0 AND r.active_at - r.expires_at > v.also_now)
    AND +r.workspace = v.workspace AND +r.kind = v.kind AND r.trashed_at IS NULL -- the plus rules the larger index out
    AND (v.look IS NULL OR r.look = v.also_look)
) FROM v

-- name: count_label
SELECT count(*) FROM labels l CROSS JOIN refs r ON r.ref = l.ref
WHERE l.look = ? AND r.workspace = ? AND r.kind = ? AND r.trashed_at IS NULL
  AND (r.hold OR coalesce(r.expires_at > ? OR r.expires_at < 0 AND r.active_at - r.expires_at > ?, 1))
  AND (? IS NULL OR r.look = ?)

-- name: refs_owned
SELECT {ref} FROM refs r WHERE r.owner = ? ORDER BY r.ref & 2147483647

-- name: refs_after
SELECT {ref} FROM refs r WHERE r.ref > ? ORDER BY r.ref LIMIT ?+0

-- name: rekey_ref
UPDATE refs SET wrapped_key = ?, mac = ?, data = ? WHERE ref = ?

-- name: refs_in_tree
SELECT {ref} FROM refs r WHERE r.tree = ? AND r.head BETWEEN ? AND ? ORDER BY r.ref

-- name: top_rank
SELECT coalesce(max(rank), 0) FROM refs WHERE workspace = ? AND kind = ? AND trashed_at IS NULL

-- name: add_ref
INSERT INTO refs (workspace, kind, key, owner, tree, head, head_id, version, created_at, active_at, rank,
                  trashed_at, expires_at, hold, look, wrapped_key, mac, data)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: set_ref
UPDATE refs SET owner = ?, head = ?, head_id = ?, version = ?, active_at = ?, rank = ?, trashed_at = ?, expires_at = ?,
                hold = ?, look = ?, wrapped_key = ?, mac = ?, data = ?
WHERE ref = ? AND version = ?

-- name: move_ref
UPDATE refs SET head = ?, head_id = ?, version = ?, active_at = ?, mac = ? WHERE ref = ? AND version = ?

-- name: move_ref_up
UPDATE refs SET head = ?, head_id = ?, version = ?, active_at = ?, rank = ?, mac = ? WHERE ref = ? AND version = ?

-- name: advance
UPDATE refs SET head = ?, head_id = ?, version = ?, active_at = ?, mac = ?
WHERE ref = ? AND version = ? AND head = ? AND head_id = ? AND mac = ? AND trashed_at IS NULL AND wrapped_key IS ?
  AND (SELECT max(rank) FROM refs o WHERE workspace = refs.workspace AND kind = refs.kind AND trashed_at IS NULL) = ?
  AND (SELECT number FROM epoch) = ?
  AND EXISTS (SELECT 1 FROM runs u WHERE u.run = ? AND u.closed = 0 AND u.wrapped_key IS ?)
  AND NOT EXISTS (SELECT 1 FROM nodes WHERE pos = ?)

-- name: advance_up
UPDATE refs SET rank = ?, head = ?, head_id = ?, version = ?, active_at = ?, mac = ?
WHERE ref = ? AND version = ? AND head = ? AND head_id = ? AND mac = ? AND trashed_at IS NULL AND wrapped_key IS ?
  AND (SELECT max(rank) FROM refs o WHERE workspace = refs.workspace AND kind = refs.kind AND trashed_at IS NULL) = ?
  AND (SELECT number FROM epoch) = ?
  AND EXISTS (SELECT 1 FROM runs u WHERE u.run = ? AND u.closed = 0 AND u.wrapped_key IS ?)
  AND NOT EXISTS (SELECT 1 FROM nodes WHERE pos = ?)

-- name: extend
UPDATE refs SET head = ?, head_id = ?, version = ?, active_at = ?, mac = ? WHERE ref = ? AND version = ? AND mac = ?

-- name: delete_ref
DELETE FROM refs WHERE ref = ?

-- name: delete_log
DELETE FROM log WHERE pos BETWEEN ? AND ?

-- name: labels
SELECT look FROM labels WHERE ref = ? ORDER BY look

-- name: clear_labels
DELETE FROM labels WHERE ref = ?

-- name: add_label
INSERT INTO labels (look, ref) VALUES (?, ?)

-- name: log_last
SELECT max(pos) FROM log WHERE pos BETWEEN ? AND ?

-- name: log_range
SELECT pos, created_at, id, body FROM log WHERE pos BETWEEN ? AND ? ORDER BY pos LIMIT ?+0

-- name: log_after
SELECT pos, created_at, id, body FROM log WHERE pos > ? ORDER BY pos LIMIT ?+0

-- name: set_log_body
UPDATE log SET body = ? WHERE pos = ?

-- name: log_by_id
SELECT pos, created_at, id, body FROM log WHERE id = ?

-- name: add_log
INSERT INTO log (pos, created_at, id, body) VALUES (?, ?, ?, ?)

-- name: blob
SELECT {blob} FROM blobs b WHERE b.tree = ? AND b.look = ?

-- name: blobs_between
SELECT {blob} FROM blobs b WHERE b.tree = ? AND b.look BETWEEN ? AND ?

-- name: blobs_unused
SELECT {blob} FROM blobs b WHERE b.tree = ? AND NOT EXISTS (SELECT 1 FROM uses WHERE blob = b.blob)

-- name: blobs_after
SELECT {blob} FROM blobs b WHERE b.blob > ? ORDER BY b.blob LIMIT ?+0

-- name: blob_by_number
SELECT {blob} FROM blobs b WHERE b.blob = ?

-- name: add_blob
INSERT INTO blobs (tree, look, size, chunks, created_at, wrapped_key, mac) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: set_blob
UPDATE blobs SET look = ?, size = ?, chunks = ?, wrapped_key = ?, mac = ? WHERE blob = ?

-- name: add_chunk
INSERT INTO chunks (pos, body) VALUES (?, ?)

-- name: chunks_after
SELECT pos, body FROM chunks WHERE pos > ? ORDER BY pos LIMIT ?+0

-- name: set_chunk
UPDATE chunks SET body = ? WHERE pos = ?

-- name: chunk
SELECT body FROM chunks WHERE pos = ?

-- name: add_use
INSERT INTO uses (blob, "user") VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: blobs_used
SELECT DISTINCT blob FROM uses WHERE "user" BETWEEN ? AND ?

-- name: delete_uses
DELETE FROM uses WHERE "user" BETWEEN ? AND ?

-- name: blob_in_use
SELECT EXISTS (SELECT 1 FROM uses WHERE blob = ?)

-- name: delete_blob
DELETE FROM blobs WHERE blob = ?

-- name: delete_chunks
DELETE FROM chunks WHERE pos BETWEEN ? AND ?

-- name: add_object
INSERT INTO objects (name, blob, size, created_at) VALUES (?, ?, ?, ?)

-- name: object
SELECT name, blob, size, created_at FROM objects WHERE blob = ? AND size > 0

-- name: objects_after
SELECT name, blob, size, created_at FROM objects WHERE blob > ? AND size > 0 ORDER BY blob LIMIT ?+0

-- name: whole_object
UPDATE objects SET size = ? WHERE name = ? AND blob = ?

-- name: leave_others
UPDATE objects SET blob = NULL WHERE blob = ? AND name <> ?

-- name: leave_object
UPDATE objects SET blob = NULL WHERE blob = ?

-- name: objects_unfinished
SELECT name, blob, size, created_at FROM objects WHERE blob IS NOT NULL AND size = 0 AND created_at < ?

-- name: leave_unfinished
UPDATE objects SET blob = NULL WHERE size = 0 AND created_at < ?

-- name: objects_left
SELECT name, blob, size, created_at FROM objects WHERE blob IS NULL ORDER BY name LIMIT ?+0

-- name: bytes_left
SELECT coalesce(sum(size), 0) FROM objects WHERE blob IS NULL

-- name: object_named
SELECT EXISTS (SELECT 1 FROM objects WHERE name = ?)

-- name: drop_object
DELETE FROM objects WHERE name = ?

-- name: tree_blobs
SELECT blob FROM blobs WHERE tree = ?
