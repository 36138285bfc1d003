-- Row-level security: a role sees the rows of its workspaces, whatever ids it asks for. Run once by the owner of the
-- store's schema, who is not bound by it; `clew.tenants` does. Every table is reached through its tree or its ref, whose
-- own policies are applied on the way.

CREATE TABLE IF NOT EXISTS tenants (
    role      name NOT NULL,
    workspace text NOT NULL,
    PRIMARY KEY (role, workspace)
);
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON tenants;
CREATE POLICY own ON tenants FOR SELECT USING (role = current_user);

ALTER TABLE trees ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON trees;
CREATE POLICY own ON trees USING (workspace IN (SELECT t.workspace FROM tenants t));

ALTER TABLE refs ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON refs;
CREATE POLICY own ON refs USING (workspace IN (SELECT t.workspace FROM tenants t));

ALTER TABLE search ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON search;
CREATE POLICY own ON search USING (workspace IN (SELECT t.workspace FROM tenants t));

ALTER TABLE search_edge ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON search_edge;
CREATE POLICY own ON search_edge USING (workspace IN (SELECT t.workspace FROM tenants t));

ALTER TABLE runs ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON runs;
CREATE POLICY own ON runs USING (EXISTS (SELECT 1 FROM trees t WHERE t.tree = runs.tree));

ALTER TABLE nodes ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON nodes;
CREATE POLICY own ON nodes USING (EXISTS (SELECT 1 FROM runs u WHERE u.run = nodes.pos >> 24));

ALTER TABLE quarantine ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON quarantine;
CREATE POLICY own ON quarantine USING (EXISTS (SELECT 1 FROM runs u WHERE u.run = quarantine.pos >> 24));

ALTER TABLE log ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON log;
CREATE POLICY own ON log USING (EXISTS (SELECT 1 FROM refs r WHERE r.ref = log.pos >> 24));

ALTER TABLE labels ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON labels;
CREATE POLICY own ON labels USING (EXISTS (SELECT 1 FROM refs r WHERE r.ref = labels.ref));

ALTER TABLE watched ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON watched;
CREATE POLICY own ON watched USING (EXISTS (SELECT 1 FROM refs r WHERE r.ref = watched.ref));

ALTER TABLE blobs ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON blobs;
CREATE POLICY own ON blobs USING (EXISTS (SELECT 1 FROM trees t WHERE t.tree = blobs.tree));

ALTER TABLE chunks ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON chunks;
CREATE POLICY own ON chunks USING (EXISTS (SELECT 1 FROM blobs b WHERE b.blob = chunks.pos >> 24));

ALTER TABLE uses ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON uses;
CREATE POLICY own ON uses USING (EXISTS (SELECT 1 FROM blobs b WHERE b.blob = uses.blob));

-- One that nothing needs belongs to nobody: whoever comes by removes it.
ALTER TABLE objects ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON objects;
CREATE POLICY own ON objects USING (blob IS NULL OR EXISTS (SELECT 1 FROM blobs b WHERE b.blob = objects.blob));

-- What holds for the whole store is read by all; of it a tenant changes the marks of an unfinished purge alone.
ALTER TABLE header ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS seen ON header;
CREATE POLICY seen ON header FOR SELECT USING (true);
DROP POLICY IF EXISTS mark ON header;
CREATE POLICY mark ON header USING (name LIKE 'unclean%') WITH CHECK (name LIKE 'unclean%');
