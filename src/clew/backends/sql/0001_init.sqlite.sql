-- Format 1. docs/design.md explains the tables; the comments here say what each column must hold.
-- A position is run << 24 | seq. Times are microseconds since 1970, UTC. An id is a UUID's bytes reversed.

CREATE TABLE header (
    name  TEXT PRIMARY KEY,     -- store_id, created_at, lookup_key
    value BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE epoch (            -- one row, read again by every write transaction
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    number    INTEGER NOT NULL, -- grows whenever a column after it but ord_floor changes
    format    INTEGER NOT NULL,
    state     TEXT NOT NULL,    -- plain | sealing | sealed | rotating | unsealing
    key_id    BLOB,             -- which store key, in a sealed store
    ord_floor INTEGER NOT NULL  -- no ord at or below it is given again, whatever was deleted
);

CREATE TABLE trees (
    tree       INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace  TEXT NOT NULL,
    created_at INTEGER NOT NULL
);

CREATE TABLE runs (             -- a straight stretch of nodes; node n of it is at position run << 24 | n
    run         INTEGER PRIMARY KEY AUTOINCREMENT,
    tree        INTEGER NOT NULL REFERENCES trees,
    parent      INTEGER REFERENCES nodes (pos), -- where it grew from; NULL at a root
    derived     INTEGER REFERENCES nodes (pos), -- what a compaction's root stands for
    depth       INTEGER NOT NULL,   -- of its first node: 0 at a root
    carried     INTEGER NOT NULL,   -- messages before the root that compactions left behind
    tip         INTEGER NOT NULL,   -- highest seq saved without a ref, -1 if none; a ref's head is the tip otherwise
    closed      INTEGER NOT NULL,   -- 1 once its tail was deleted: a seq is never given twice
    wrapped_key BLOB,               -- data key under the store key, in a sealed store
    mac         BLOB NOT NULL
);
CREATE INDEX runs_tree ON runs (tree);
CREATE INDEX runs_parent ON runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_derived ON runs (derived) WHERE derived IS NOT NULL;

CREATE TABLE nodes (            -- written once; the body is last, so that the rest is read without it
    pos   INTEGER PRIMARY KEY,
    ord   INTEGER NOT NULL,     -- order of commit in the whole store
    facts BLOB NOT NULL,        -- when, who, in which form, and the totals of the path: one value is read faster than eight
    id    BLOB NOT NULL,
    body  BLOB NOT NULL         -- envelope
);
CREATE UNIQUE INDEX nodes_id ON nodes (id);
CREATE UNIQUE INDEX nodes_ord ON nodes (ord);

CREATE TABLE quarantine (       -- messages whose bodies did not open: their rows stay, each with an empty body
    pos        INTEGER PRIMARY KEY REFERENCES nodes (pos),
    created_at INTEGER NOT NULL,    -- when it was taken out
    why        TEXT NOT NULL,
    body       BLOB NOT NULL        -- envelope of the row's context and of the body as it was found, until that is purged
);

CREATE TABLE refs (             -- the only rows that change, by compare-and-swap on version
    ref         INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace   TEXT NOT NULL,
    kind        TEXT NOT NULL,      -- session, subagent, branch, …
    key         BLOB NOT NULL,
    owner       INTEGER REFERENCES refs (ref),
    tree        INTEGER REFERENCES trees,
    head        INTEGER,            -- position, and id, of the node it points to; both NULL before the first
    head_id     BLOB,
    version     INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    active_at   INTEGER NOT NULL,   -- last change of the head, by the clock
    rank        INTEGER NOT NULL,   -- sorts by last activity; set only when the ref overtakes others of its kind
    trashed_at  INTEGER,
    expires_at  INTEGER,
    hold        INTEGER NOT NULL,
    look        BLOB,               -- keyed hash that an equality look-up needs (a session's directory)
    wrapped_key BLOB,
    mac         BLOB NOT NULL,
    data        BLOB NOT NULL       -- envelope
);
CREATE UNIQUE INDEX refs_key ON refs (workspace, kind, key);
CREATE INDEX refs_recent ON refs (workspace, kind, rank) WHERE trashed_at IS NULL;
CREATE INDEX refs_look ON refs (workspace, kind, look, rank) WHERE look IS NOT NULL AND trashed_at IS NULL;
CREATE INDEX refs_tree ON refs (tree) WHERE tree IS NOT NULL;
CREATE INDEX refs_owner ON refs (owner) WHERE owner IS NOT NULL;
CREATE INDEX refs_expiring ON refs (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE labels (           -- keyed hashes of a ref's labels
    look BLOB NOT NULL,
    ref  INTEGER NOT NULL REFERENCES refs (ref) ON DELETE CASCADE,
    PRIMARY KEY (look, ref)
) WITHOUT ROWID;
CREATE INDEX labels_ref ON labels (ref);

CREATE TABLE log (              -- append-only entries of a ref
    pos        INTEGER PRIMARY KEY, -- ref << 24 | seq
    created_at INTEGER NOT NULL,
    id         BLOB NOT NULL,
    body       BLOB NOT NULL        -- envelope
);
CREATE UNIQUE INDEX log_id ON log (id);

CREATE TABLE blobs (
    blob        INTEGER PRIMARY KEY AUTOINCREMENT,
    tree        INTEGER NOT NULL REFERENCES trees,
    look        BLOB NOT NULL,      -- keyed hash of tree and content: equal contents in two trees do not show
    size        INTEGER NOT NULL,
    chunks      INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    wrapped_key BLOB,
    mac         BLOB NOT NULL
);
CREATE UNIQUE INDEX blobs_look ON blobs (tree, look);

CREATE TABLE chunks (
    pos  INTEGER PRIMARY KEY,       -- blob << 24 | number
    body BLOB NOT NULL              -- envelope
);

CREATE TABLE uses (             -- who shows a blob; a blob goes with its last use
    blob INTEGER NOT NULL REFERENCES blobs (blob),
    user INTEGER NOT NULL,          -- a node's position, or minus a ref
    PRIMARY KEY (blob, user)
) WITHOUT ROWID;
CREATE INDEX uses_user ON uses (user);

CREATE TABLE forgotten (        -- positions whose nodes were deleted, for whatever is derived from nodes (search)
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    low    INTEGER NOT NULL,
    high   INTEGER NOT NULL
);

CREATE TABLE objects (          -- every object that was begun for the store, until it is known to be gone
    name       BLOB PRIMARY KEY,    -- keyed hash of the workspace, 16 bytes, and 16 random ones; never given again
    blob       INTEGER REFERENCES blobs (blob), -- whose pieces it has; NULL once nothing needs it
    size       INTEGER NOT NULL,    -- bytes; 0 until it is whole
    created_at INTEGER NOT NULL     -- when it was begun
) WITHOUT ROWID;
CREATE INDEX objects_blob ON objects (blob);
