-- Format 1 on PostgreSQL: the tables of 0001_init.sqlite.sql, whose comments explain the columns.
-- The number of a run, a ref or a blob is shard << 31 | counter. Its shard is the lowest eight bits of its tree, so every
-- key begins with the shard of the tree, and tables can be partitioned by it (partitions.postgres.sql). Only the
-- uniqueness of ids is a constraint across trees.

CREATE TABLE header (
    name  text PRIMARY KEY,
    value bytea NOT NULL
);

CREATE TABLE epoch (
    one    bigint PRIMARY KEY CHECK (one = 1),
    number bigint NOT NULL,
    format bigint NOT NULL,
    state  text NOT NULL,
    key_id bytea
);

CREATE TABLE trees (
    tree       bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    workspace  text NOT NULL,
    created_at bigint NOT NULL
);

CREATE SEQUENCE run_numbers AS bigint MAXVALUE 2147483647;
CREATE TABLE runs (
    run         bigint PRIMARY KEY,
    tree        bigint NOT NULL REFERENCES trees,
    parent      bigint,
    derived     bigint,
    depth       bigint NOT NULL,
    carried     bigint NOT NULL,
    tip         bigint NOT NULL,
    closed      bigint NOT NULL,
    wrapped_key bytea,
    mac         bytea NOT NULL
);
CREATE INDEX runs_tree ON runs (tree);
CREATE INDEX runs_parent ON runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_derived ON runs (derived) WHERE derived IS NOT NULL;

CREATE SEQUENCE ords AS bigint;
CREATE TABLE nodes (
    pos   bigint PRIMARY KEY,
    ord   bigint NOT NULL DEFAULT nextval('ords'),
    facts bytea NOT NULL,
    id    bytea NOT NULL,
    body  bytea NOT NULL
);
CREATE UNIQUE INDEX nodes_id ON nodes (id);
CREATE UNIQUE INDEX nodes_ord ON nodes (ord);

CREATE TABLE quarantine (
    pos        bigint PRIMARY KEY,
    created_at bigint NOT NULL,
    why        text NOT NULL,
    body       bytea NOT NULL
);

CREATE SEQUENCE ref_numbers AS bigint MAXVALUE 2147483647;
CREATE TABLE refs (
    ref         bigint PRIMARY KEY,
    workspace   text NOT NULL,
    kind        text NOT NULL,
    key         bytea NOT NULL,
    owner       bigint REFERENCES refs,
    tree        bigint REFERENCES trees,
    head        bigint,
    head_id     bytea,
    version     bigint NOT NULL,
    created_at  bigint NOT NULL,
    active_at   bigint NOT NULL,
    rank        bigint NOT NULL,
    trashed_at  bigint,
    expires_at  bigint,
    hold        bigint NOT NULL,
    look        bytea,
    wrapped_key bytea,
    mac         bytea NOT NULL,
    data        bytea NOT NULL
) WITH (fillfactor = 70); -- heads move often, and free space keeps the updated row on its page
CREATE UNIQUE INDEX refs_key ON refs (workspace, kind, key);
CREATE INDEX refs_recent ON refs (workspace, kind, rank) WHERE trashed_at IS NULL;
CREATE INDEX refs_look ON refs (workspace, kind, look, rank) WHERE look IS NOT NULL AND trashed_at IS NULL;
CREATE INDEX refs_tree ON refs (tree) WHERE tree IS NOT NULL;
CREATE INDEX refs_owner ON refs (owner) WHERE owner IS NOT NULL;

CREATE TABLE labels (
    look bytea NOT NULL,
    ref  bigint NOT NULL REFERENCES refs ON DELETE CASCADE,
    PRIMARY KEY (look, ref)
);
CREATE INDEX labels_ref ON labels (ref);

CREATE TABLE log (
    pos        bigint PRIMARY KEY,
    created_at bigint NOT NULL,
    id         bytea NOT NULL,
    body       bytea NOT NULL
);
CREATE UNIQUE INDEX log_id ON log (id);

CREATE SEQUENCE blob_numbers AS bigint MAXVALUE 2147483647;
CREATE TABLE blobs (
    blob        bigint PRIMARY KEY,
    tree        bigint NOT NULL REFERENCES trees,
    look        bytea NOT NULL,
    size        bigint NOT NULL,
    chunks      bigint NOT NULL,
    created_at  bigint NOT NULL,
    wrapped_key bytea,
    mac         bytea NOT NULL
);
CREATE UNIQUE INDEX blobs_look ON blobs (tree, look);

CREATE TABLE chunks (
    pos  bigint PRIMARY KEY,
    body bytea NOT NULL
);
ALTER TABLE chunks ALTER COLUMN body SET STORAGE EXTERNAL; -- most attachments are compressed already

CREATE TABLE objects (
    name       bytea PRIMARY KEY,
    blob       bigint REFERENCES blobs,
    size       bigint NOT NULL,
    created_at bigint NOT NULL
);
CREATE INDEX objects_blob ON objects (blob);

CREATE TABLE uses (
    blob   bigint NOT NULL REFERENCES blobs,
    "user" bigint NOT NULL,
    PRIMARY KEY (blob, "user")
);
CREATE INDEX uses_user ON uses ("user");

CREATE TABLE forgotten (
    number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    low    bigint NOT NULL,
    high   bigint NOT NULL
);

CREATE TABLE search (           -- words of messages in an unencrypted store; searches fill it
    workspace  text NOT NULL,
    mode       text NOT NULL,       -- words | substring
    pos        bigint NOT NULL,
    id         bytea NOT NULL,
    role       bigint NOT NULL,
    created_at bigint NOT NULL,
    lexemes    tsvector NOT NULL,
    PRIMARY KEY (pos, mode)
);
CREATE INDEX search_lexemes ON search USING gin (lexemes);

CREATE TABLE search_edge (      -- the ord up to which `search` has all words of a workspace
    workspace text NOT NULL,
    mode      text NOT NULL,
    ord       bigint NOT NULL,
    PRIMARY KEY (workspace, mode)
);

CREATE UNLOGGED TABLE watched ( -- watched refs, and until when their changes are notified
    ref   bigint PRIMARY KEY,
    until timestamptz NOT NULL
);

-- Notifies the watchers of a ref of its new version after the commit; 0 if it was deleted. NOTIFY makes commits wait for
-- each other, so it is used only for watched refs.
CREATE FUNCTION tell(the_ref bigint, the_version bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    sent text;
BEGIN
    IF EXISTS (SELECT 1 FROM watched w WHERE w.ref = the_ref AND w.until > now()) THEN
        SELECT pg_notify('clew_' || 'refs'::regclass::oid, the_ref || ' ' || the_version)::text INTO sent;
        RETURN true;
    END IF;
    RETURN false;
END $$;

-- Appends one message: adds a node, moves the head of the ref to it, and notifies the watchers of the ref. Changes
-- nothing and returns false if anything has changed since the ref was read: see `Tx.advance`.
--
-- A separate statement takes the lock, so that later ones see everything that was committed before. No PERFORM and no
-- FOUND, because not every compatible server has them. Lookups are scalar subqueries, which the planner never turns into
-- joins: they take one step in an index, whatever the size of the table or its statistics. `coalesce` prevents a scan of
-- the refs by the index of refs that are not in the trash, which looks as cheap while there are few. Calling another
-- function would take longer.
CREATE FUNCTION extend(
    store bigint, the_epoch bigint, the_ref bigint, seen_version bigint, seen_head bigint, seen_head_id bytea,
    seen_mac bytea, ref_key bytea, run_key bytea,
    new_head bigint, new_head_id bytea, new_version bigint, new_active_at bigint, new_rank bigint, new_mac bytea,
    the_pos bigint, the_facts bytea, the_id bytea, the_body bytea
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    held text;
    heard boolean;
    sent text;
BEGIN
    held := pg_advisory_xact_lock_shared(store)::text;
    WITH moved AS (
        UPDATE refs r SET head = new_head, head_id = new_head_id, version = new_version, active_at = new_active_at,
                          rank = new_rank, mac = new_mac
        WHERE r.ref = the_ref AND r.version = seen_version AND r.head = seen_head AND r.head_id = seen_head_id
          AND r.mac = seen_mac AND coalesce(r.trashed_at, -1) = -1 AND r.wrapped_key IS NOT DISTINCT FROM ref_key
          AND coalesce((SELECT o.rank FROM refs o WHERE o.workspace = r.workspace AND o.kind = r.kind
                        AND o.trashed_at IS NULL AND o.ref <> r.ref ORDER BY o.rank DESC LIMIT 1) < new_rank, true)
          AND (SELECT number FROM epoch WHERE one = 1) = the_epoch
          AND (SELECT u.closed = 0 AND u.wrapped_key IS NOT DISTINCT FROM run_key
               FROM runs u WHERE u.run = seen_head >> 24)
          AND (SELECT n.pos FROM nodes n WHERE n.pos = seen_head + 1) IS NULL
        RETURNING coalesce((SELECT w.until > now() FROM watched w WHERE w.ref = the_ref), false) AS watched
    ), added AS (
        INSERT INTO nodes (pos, facts, id, body) SELECT the_pos, the_facts, the_id, the_body FROM moved
    )
    SELECT watched FROM moved INTO heard;
    IF heard THEN
        sent := pg_notify('clew_' || 'refs'::regclass::oid, the_ref || ' ' || new_version)::text;
    END IF;
    RETURN heard IS NOT NULL;
END $$;

-- `extend` for several refs, given by columns, in order of their numbers: concurrent calls lock them in the same order,
-- so they cannot deadlock. No two refs have their heads in the same run, so a node belongs to the ref whose head is in
-- its run; each ref may have any number of nodes, or none. Returns the refs that were moved.
--
-- All calls use one plan, because planning takes as long as eight appends. The plan uses only indexes, so it stays good
-- while the tables grow, and is never JIT-compiled, which would happen for each call. Lookups depend on `r`, never on `m`
-- alone: the planner may otherwise run them for every pair of a row and an append, before it compares these.
CREATE FUNCTION extend_all(
    store bigint, epochs bigint[], the_refs bigint[], seen_versions bigint[], seen_heads bigint[], seen_head_ids bytea[],
    seen_macs bytea[], ref_keys bytea[], run_keys bytea[],
    new_heads bigint[], new_head_ids bytea[], new_versions bigint[], new_active_ats bigint[], new_ranks bigint[],
    new_macs bytea[],
    the_pos bigint[], the_facts bytea[], the_ids bytea[], the_bodies bytea[]
) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    held text;
    done bigint[];
    told bigint;
BEGIN
    held := pg_advisory_xact_lock_shared(store)::text;
    WITH moved AS (
        UPDATE refs r SET head = m.new_head, head_id = m.new_head_id, version = m.new_version,
                          active_at = m.new_active_at, rank = m.new_rank, mac = m.new_mac
        FROM unnest(epochs, the_refs, seen_versions, seen_heads, seen_head_ids, seen_macs, ref_keys, run_keys,
                    new_heads, new_head_ids, new_versions, new_active_ats, new_ranks, new_macs)
             AS m (epoch, ref, version, head, head_id, mac, ref_key, run_key,
                   new_head, new_head_id, new_version, new_active_at, new_rank, new_mac)
        WHERE r.ref = ANY (the_refs) AND r.ref = m.ref
          AND r.version = m.version AND r.head = m.head AND r.head_id = m.head_id
          AND r.mac = m.mac AND coalesce(r.trashed_at, -1) = -1 AND r.wrapped_key IS NOT DISTINCT FROM m.ref_key
          AND coalesce((SELECT o.rank FROM refs o WHERE o.workspace = r.workspace AND o.kind = r.kind
                        AND o.trashed_at IS NULL AND o.ref <> r.ref ORDER BY o.rank DESC LIMIT 1) < m.new_rank, true)
          AND (SELECT number FROM epoch WHERE one = 1) = m.epoch
          AND (SELECT u.closed = 0 AND u.wrapped_key IS NOT DISTINCT FROM m.run_key
               FROM runs u WHERE u.run = r.head >> 24)
          AND (SELECT n.pos FROM nodes n WHERE n.pos = r.head + 1) IS NULL
        RETURNING r.ref, r.version, r.head >> 24 AS run
    ), added AS (
        INSERT INTO nodes (pos, facts, id, body)
        SELECT n.pos, n.facts, n.id, n.body
        FROM unnest(the_pos, the_facts, the_ids, the_bodies) AS n (pos, facts, id, body)
        WHERE n.pos >> 24 = ANY (ARRAY(SELECT run FROM moved)) -- not a join, which might change their order
    )
    SELECT array_agg(ref),
           count(CASE WHEN (SELECT w.until > now() FROM watched w WHERE w.ref = moved.ref)
                      THEN pg_notify('clew_' || 'refs'::regclass::oid, ref || ' ' || version)::text END)
    FROM moved INTO done, told;
    RETURN done;
END $$;
