-- Cuts the large tables of an empty store into partitions, each for as many shards; `clew.partitions` runs it, after
-- `SET clew.partitions = 16` or another power of two. A tree is in one partition whole: its positions are a range.

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
            -- Each has indexes of its own: what is unique in it is unique in the tree.
            EXECUTE format('CREATE TABLE %I (LIKE whole INCLUDING ALL)', part);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', large, part,
                           CASE i WHEN 0 THEN 'MINVALUE' ELSE (width * i)::text END,
                           CASE i WHEN parts - 1 THEN 'MAXVALUE' ELSE (width * (i + 1))::text END);
        END LOOP;
        DROP TABLE whole;
    END LOOP;
END $cut$;

-- An id that is in another tree, and so perhaps in another partition, is taken as well. Whoever stores two such at the
-- same moment is not held up: within a tree an id is unique whatever happens. The functions look at everybody's rows,
-- and tell nothing of them but this. They are bound to the store's schema, with temporary tables last: nobody can put one
-- of theirs in the place of the store's. However many rows there are, each is looked for by the index.
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
