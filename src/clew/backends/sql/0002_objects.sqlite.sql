-- Format 2: the pieces of a blob may lie outside of the store, as one object of object storage.

CREATE TABLE objects (          -- every object that was begun for the store, until it is known to be gone
    name       BLOB PRIMARY KEY,    -- keyed hash of the workspace, 16 bytes, and 16 random ones; never given again
    blob       INTEGER REFERENCES blobs (blob), -- whose pieces it has; NULL once nothing needs it
    size       INTEGER NOT NULL,    -- bytes; 0 until it is whole
    created_at INTEGER NOT NULL     -- when it was begun
) WITHOUT ROWID;
CREATE INDEX objects_blob ON objects (blob);
