-- The functions of a store. Opening a store whose functions have a lower number (see the comment at the end) replaces
-- them. A ref, a node or a blob has a home: the lock that every writer of it holds.

DO $$
DECLARE
    old record;
BEGIN
    FOR old IN SELECT p.oid::regprocedure AS signature FROM pg_proc p
               WHERE p.pronamespace = current_schema()::regnamespace AND p.proname IN
                     ('tell', 'extend', 'extend_all', 'home_of', 'take_home', 'find_ref', 'find_ref_at', 'find_head',
                      'find_look')
    LOOP
        EXECUTE format('DROP FUNCTION %s', old.signature);
    END LOOP;
END $$;

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
-- A separate statement takes each lock, so that later ones see everything that was committed before. No PERFORM and no
-- FOUND, because not every compatible server has them. Lookups are scalar subqueries, which the planner never turns into
-- joins: they take one step in an index, whatever the size of the table or its statistics. `coalesce` prevents a scan of
-- the refs by the index of refs that are not in the trash, which looks as cheap while there are few. Calling another
-- function would take longer.
CREATE FUNCTION extend(
    store bigint, homes int, the_tree bigint, the_epoch bigint, the_ref bigint, seen_version bigint, seen_head bigint,
    seen_head_id bytea, seen_mac bytea, ref_key bytea, run_key bytea,
    new_head bigint, new_head_id bytea, new_version bigint, new_active_at bigint, new_rank bigint, new_mac bytea,
    the_pos bigint, the_facts bytea, the_id bytea, the_body bytea
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    held text;
    heard boolean;
    sent text;
BEGIN
    held := pg_advisory_xact_lock_shared(store)::text;
    held := pg_advisory_xact_lock(homes, (the_tree & 2147483647)::int)::text;
    WITH moved AS (
        UPDATE refs r SET head = new_head, head_id = new_head_id, version = new_version, active_at = new_active_at,
                          rank = new_rank, mac = new_mac
        WHERE r.ref = the_ref AND r.version = seen_version AND r.head = seen_head AND r.head_id = seen_head_id
          AND r.mac = seen_mac AND coalesce(r.trashed_at, -1) = -1 AND r.wrapped_key IS NOT DISTINCT FROM ref_key
          AND coalesce((SELECT o.rank FROM refs o WHERE o.workspace = r.workspace AND o.kind = r.kind
                        AND o.trashed_at IS NULL AND o.ref <> r.ref ORDER BY o.rank DESC LIMIT 1)
                       < new_rank + 2000000, true) -- the clocks of machines may differ by two seconds
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

-- `extend` for several refs, given by columns, in order of their numbers. It takes the locks of their trees in order, so
-- concurrent calls cannot deadlock. No two refs have their heads in the same run, so a node belongs to the ref whose head is in
-- its run; each ref may have any number of nodes, or none. Returns the refs that were moved.
--
-- All calls use one plan, because planning takes as long as eight appends. The plan uses only indexes, so it stays good
-- while the tables grow, and is never JIT-compiled, which would happen for each call. Lookups depend on `r`, never on `m`
-- alone: the planner may otherwise run them for every pair of a row and an append, before it compares these.
CREATE FUNCTION extend_all(
    store bigint, homes int, the_trees bigint[], epochs bigint[], the_refs bigint[], seen_versions bigint[],
    seen_heads bigint[], seen_head_ids bytea[], seen_macs bytea[], ref_keys bytea[], run_keys bytea[],
    new_heads bigint[], new_head_ids bytea[], new_versions bigint[], new_active_ats bigint[], new_ranks bigint[],
    new_macs bytea[],
    the_pos bigint[], the_facts bytea[], the_ids bytea[], the_bodies bytea[]
) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    held text;
    tree bigint;
    done bigint[];
    told bigint;
BEGIN
    held := pg_advisory_xact_lock_shared(store)::text;
    FOREACH tree IN ARRAY the_trees LOOP
        held := pg_advisory_xact_lock(homes, (tree & 2147483647)::int)::text;
    END LOOP;
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
                        AND o.trashed_at IS NULL AND o.ref <> r.ref ORDER BY o.rank DESC LIMIT 1)
                       < m.new_rank + 2000000, true) -- the clocks of machines may differ by two seconds
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

-- The number of a ref's home: that of its tree, else that of its owner, else its own. It never changes while a
-- transaction has the store's lock, shared or not. An owner is older than what it owns.
CREATE FUNCTION home_of(the_ref bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    one bigint := the_ref;
    its_tree bigint;
    its_owner bigint;
BEGIN
    LOOP
        SELECT r.tree, r.owner INTO its_tree, its_owner FROM refs r WHERE r.ref = one;
        IF its_tree IS NOT NULL THEN
            RETURN (its_tree & 2147483647)::int;
        END IF;
        IF its_owner IS NULL OR (its_owner & 2147483647) >= (one & 2147483647) THEN
            RETURN (-1 - (one & 2147483647))::int;
        END IF;
        one := its_owner;
    END LOOP;
END $$;

-- Takes the lock of a home. Without `wait`, only if no other transaction has it. Returns whether this one has it now.
CREATE FUNCTION take_home(homes int, home int, wait boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    held text;
BEGIN
    IF wait THEN
        held := pg_advisory_xact_lock(homes, home)::text;
        RETURN true;
    END IF;
    RETURN pg_try_advisory_xact_lock(homes, home);
END $$;

-- The functions below take the lock of a home, and then read: only the statement after that sees what was committed
-- before. They return a row of nulls if the lock is taken and they must not wait, no row if there is nothing.

-- A ref by its key. If there is none, the transaction has the lock of the key: until its end, no other adds that ref.
CREATE FUNCTION find_ref(
    homes int, wait_for_key boolean, wait boolean, the_workspace text, the_kind text, the_key bytea
) RETURNS SETOF refs LANGUAGE plpgsql AS $$
DECLARE
    found bigint;
    name text;
BEGIN
    found := (SELECT r.ref FROM refs r WHERE r.workspace = the_workspace AND r.kind = the_kind AND r.key = the_key);
    IF found IS NULL THEN
        name := the_workspace || ' ' || the_kind || ' ' || encode(the_key, 'hex');
        IF NOT take_home(homes, hashtext(name), wait_for_key) THEN
            RETURN NEXT NULL::refs;
            RETURN;
        END IF;
        found := (SELECT r.ref FROM refs r WHERE r.workspace = the_workspace AND r.kind = the_kind AND r.key = the_key);
        IF found IS NULL THEN
            RETURN;
        END IF;
    END IF;
    IF take_home(homes, home_of(found), wait) THEN
        RETURN QUERY SELECT r.* FROM refs r WHERE r.ref = found;
    ELSE
        RETURN NEXT NULL::refs;
    END IF;
END $$;

-- A ref by its number.
CREATE FUNCTION find_ref_at(homes int, wait boolean, the_ref bigint) RETURNS SETOF refs LANGUAGE plpgsql AS $$
BEGIN
    IF take_home(homes, home_of(the_ref), wait) THEN
        RETURN QUERY SELECT r.* FROM refs r WHERE r.ref = the_ref;
    ELSE
        RETURN NEXT NULL::refs;
    END IF;
END $$;

-- `head_state` of queries.sql.
CREATE FUNCTION find_head(homes int, wait boolean, the_ref bigint)
RETURNS TABLE (epoch bigint, key bytea, version bigint, active_at bigint, rank bigint, trashed_at bigint, mac bytea,
               head_id bytea, ref_key bytea, top bigint, tree bigint, pos bigint, id bytea, run_depth bigint,
               carried bigint, facts bytea, open boolean, wrapped_key bytea) LANGUAGE plpgsql AS $$
BEGIN
    IF take_home(homes, home_of(the_ref), wait) THEN
        RETURN QUERY
        SELECT e.number, r.key, r.version, r.active_at, r.rank, r.trashed_at, r.mac, r.head_id, r.wrapped_key,
               coalesce((SELECT max(o.rank) FROM refs o
                         WHERE o.workspace = r.workspace AND o.kind = r.kind AND o.trashed_at IS NULL), 0),
               r.tree, h.pos, h.id, u.depth, u.carried, h.facts,
               u.closed = 0 AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.pos = r.head + 1),
               u.wrapped_key
        FROM refs r LEFT JOIN runs u ON u.run = r.head >> 24 LEFT JOIN nodes h ON h.pos = r.head, epoch e
        WHERE r.ref = the_ref;
    ELSE
        RETURN QUERY SELECT NULL::bigint, NULL::bytea, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint,
                            NULL::bytea, NULL::bytea, NULL::bytea, NULL::bigint, NULL::bigint, NULL::bigint,
                            NULL::bytea, NULL::bigint, NULL::bigint, NULL::bytea, NULL::boolean, NULL::bytea;
    END IF;
END $$;

-- `refs_look` of queries.sql, with the lock of the index.
CREATE FUNCTION find_look(
    homes int, wait boolean, the_workspace text, the_kind text, the_look bytea, before_rank bigint, before_ref bigint,
    the_limit bigint
) RETURNS SETOF refs LANGUAGE plpgsql AS $$
DECLARE
    name text := the_workspace || ' ' || the_kind || '.' || encode(the_look, 'hex');
BEGIN
    IF take_home(homes, hashtext(name), wait) THEN
        RETURN QUERY
        SELECT r.* FROM refs r
        WHERE r.workspace = the_workspace AND r.kind = the_kind AND r.look = the_look AND r.trashed_at IS NULL
          AND (r.rank, r.ref) < (before_rank, before_ref)
        ORDER BY r.rank DESC, r.ref DESC LIMIT the_limit;
    ELSE
        RETURN NEXT NULL::refs;
    END IF;
END $$;

COMMENT ON FUNCTION extend IS '1';
