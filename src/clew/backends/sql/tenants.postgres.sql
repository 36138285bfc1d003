-- Row-level security: a role can access only the rows of its workspaces. `clew.tenants` runs this script once, as the
-- owner of the schema, whom the policies do not restrict. Policies of other tables look up the tree or the ref of a row,
-- to which the policies of those tables apply.

CREATE TABLE IF NOT EXISTS tenants (
    role      name NOT NULL,
    workspace text NOT NULL,
    PRIMARY KEY (role, workspace)
);
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON tenants;
CREATE POLICY own ON tenants FOR SELECT USING (role = current_user);

-- The rows that a tenant can read and write. Unneeded objects have no tenant: any tenant may remove them.
DO $$
DECLARE
    rule record;
BEGIN
    FOR rule IN SELECT * FROM (VALUES
        ('trees',       'workspace IN (SELECT t.workspace FROM tenants t)'),
        ('refs',        'workspace IN (SELECT t.workspace FROM tenants t)'),
        ('search',      'workspace IN (SELECT t.workspace FROM tenants t)'),
        ('search_edge', 'workspace IN (SELECT t.workspace FROM tenants t)'),
        ('runs',        'EXISTS (SELECT 1 FROM trees t WHERE t.tree = runs.tree)'),
        ('nodes',       'EXISTS (SELECT 1 FROM runs u WHERE u.run = nodes.pos >> 24)'),
        ('quarantine',  'EXISTS (SELECT 1 FROM runs u WHERE u.run = quarantine.pos >> 24)'),
        ('log',         'EXISTS (SELECT 1 FROM refs r WHERE r.ref = log.pos >> 24)'),
        ('labels',      'EXISTS (SELECT 1 FROM refs r WHERE r.ref = labels.ref)'),
        ('watched',     'EXISTS (SELECT 1 FROM refs r WHERE r.ref = watched.ref)'),
        ('blobs',       'EXISTS (SELECT 1 FROM trees t WHERE t.tree = blobs.tree)'),
        ('chunks',      'EXISTS (SELECT 1 FROM blobs b WHERE b.blob = chunks.pos >> 24)'),
        ('uses',        'EXISTS (SELECT 1 FROM blobs b WHERE b.blob = uses.blob)'),
        ('objects',     'blob IS NULL OR EXISTS (SELECT 1 FROM blobs b WHERE b.blob = objects.blob)')
    ) AS rules (of, own)
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', rule.of);
        EXECUTE format('DROP POLICY IF EXISTS own ON %I', rule.of);
        EXECUTE format('CREATE POLICY own ON %I USING (%s)', rule.of, rule.own);
    END LOOP;
END
$$;

-- Rows that a tenant adds or changes may refer only to its own rows. Otherwise it could prevent the deletion of a tree
-- or session of another tenant, or hide words of its messages. Numbers must have been assigned before, in the shard of
-- the tree; otherwise a tenant could use numbers that are assigned to others later. Its rights do not allow a tenant to
-- change the columns that these policies read.
DO $$
DECLARE
    rule record;
BEGIN
    FOR rule IN SELECT * FROM (VALUES
        ('runs',   'run >> 31 = tree & 255 AND run & 2147483647 <= (SELECT last_value FROM run_numbers)'),
        ('blobs',  'blob >> 31 = tree & 255 AND blob & 2147483647 <= (SELECT last_value FROM blob_numbers)'),
        ('refs',   'ref >> 31 = coalesce(tree, 0) & 255 AND ref & 2147483647 <= (SELECT last_value FROM ref_numbers)
                    AND (tree IS NULL OR EXISTS (SELECT 1 FROM trees t WHERE t.tree = refs.tree))'),
        ('search', 'EXISTS (SELECT 1 FROM runs u WHERE u.run = search.pos >> 24)')
    ) AS rules (of, own)
    LOOP
        EXECUTE format('DROP POLICY IF EXISTS given ON %I', rule.of);
        EXECUTE format('CREATE POLICY given ON %I AS RESTRICTIVE FOR INSERT WITH CHECK (%s)', rule.of, rule.own);
    END LOOP;
END
$$;

-- A policy cannot query its own table, so this function does, with the rights of the owner.
CREATE OR REPLACE FUNCTION is_in(the_ref bigint, the_workspace text) RETURNS boolean LANGUAGE plpgsql STABLE
SECURITY DEFINER AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM refs r WHERE r.ref = the_ref AND r.workspace = the_workspace);
END $$;
DROP POLICY IF EXISTS beside ON refs;
CREATE POLICY beside ON refs AS RESTRICTIVE USING (true) WITH CHECK (owner IS NULL OR is_in(owner, workspace));

-- All tenants can read the data of the whole store. They can change only the marks of an unfinished purge.
ALTER TABLE header ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS seen ON header;
CREATE POLICY seen ON header FOR SELECT USING (true);
DROP POLICY IF EXISTS mark ON header;
CREATE POLICY mark ON header USING (name LIKE 'unclean%') WITH CHECK (name LIKE 'unclean%');

-- Search indexes read the deletions of all tenants. A tenant adds deletions in its own runs, and removes none: an index
-- must be able to detect that one is missing, so the trigger below removes the oldest ones of all tenants.
ALTER TABLE forgotten ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS seen ON forgotten;
CREATE POLICY seen ON forgotten FOR SELECT USING (true);
DROP POLICY IF EXISTS own ON forgotten;
CREATE POLICY own ON forgotten FOR INSERT
    WITH CHECK (low >> 24 = high >> 24 AND EXISTS (SELECT 1 FROM runs u WHERE u.run = forgotten.low >> 24));
DROP POLICY IF EXISTS old ON forgotten;

-- `forget_old`, with the rights of the owner. It counts rows, because inserts that are rolled back use up numbers.
CREATE OR REPLACE FUNCTION forget_old() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NEW.number % 1000 = 0 THEN
        DELETE FROM forgotten
        WHERE number <= (SELECT number FROM forgotten ORDER BY number DESC OFFSET 100000 LIMIT 1);
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION forget_old FROM PUBLIC;
DO $$ -- with the owner's rights, names must resolve to the tables of the store, not to those of a tenant
BEGIN
    EXECUTE format('ALTER FUNCTION forget_old SET search_path = pg_catalog, %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION is_in SET search_path = pg_catalog, %I, pg_temp', current_schema());
END
$$;
DROP TRIGGER IF EXISTS old ON forgotten;
CREATE TRIGGER old AFTER INSERT ON forgotten FOR EACH ROW EXECUTE FUNCTION forget_old();
