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
