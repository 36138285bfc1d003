-- Divides the large tables of an empty store into partitions with equal numbers of shards. `clew.partitions` runs it,
-- after `SET clew.partitions = 16` or another power of two. All rows of a tree are in one partition.

DO $cut$
DECLARE
    parts int := current_setting('clew.partitions');
    width bigint := (256 / parts)::bigint << 55;
    large text;
    part  text;
BEGIN
    FOREACH large IN ARRAY ARRAY['nodes', 'log', 'chunks', 'search'] LOOP
        EXECUTE format('ALTER TABLE %I RENAME TO whole', large);
        EXECUTE format('CREATE TABLE %I (LIKE whole INCLUDING DEFAULTS INCLUDING STORAGE) PARTITION BY RANGE (pos)', large);
        EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY (pos%s)', large, CASE large WHEN 'search' THEN ', mode' END);
        FOR i IN 0 .. parts - 1 LOOP
            part := format('%s_%s', large, i);
            -- Each partition has its own indexes: an id that is unique in it is unique in its trees.
            EXECUTE format('CREATE TABLE %I (LIKE whole INCLUDING ALL)', part);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', large, part,
                           CASE i WHEN 0 THEN 'MINVALUE' ELSE (width * i)::text END,
                           CASE i WHEN parts - 1 THEN 'MAXVALUE' ELSE (width * (i + 1))::text END);
        END LOOP;
        DROP TABLE whole;
    END LOOP;
END $cut$;

-- Rejects an id that another tree uses, perhaps in another partition. Two concurrent inserts of the same id in different
-- trees are not detected; within a tree, ids are always unique. The functions read the rows of all tenants, and reveal
-- nothing else about them. Their search path is the store's schema with temporary tables last, so that no user can
-- substitute a table. They look up each row by an index.
CREATE FUNCTION nodes_are_new() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM added a JOIN nodes n ON n.id = a.id AND n.pos <> a.pos) THEN
        RAISE unique_violation USING MESSAGE = 'a message with this id is already stored';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION entries_are_new() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM added a JOIN log l ON l.id = a.id AND l.pos <> a.pos) THEN
        RAISE unique_violation USING MESSAGE = 'an entry with this id is already stored';
    END IF;
    RETURN NULL;
END $$;

DO $bind$
BEGIN
    EXECUTE format('ALTER FUNCTION nodes_are_new() SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION entries_are_new() SET search_path = %I, pg_temp', current_schema());
END $bind$;

CREATE TRIGGER nodes_are_new AFTER INSERT ON nodes
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION nodes_are_new();
CREATE TRIGGER entries_are_new AFTER INSERT ON log
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION entries_are_new();
