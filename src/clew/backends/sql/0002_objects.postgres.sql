-- Format 2 on PostgreSQL: the table of 0002_objects.sqlite.sql, whose comments say what each column must hold.

CREATE TABLE objects (
    name       bytea PRIMARY KEY,
    blob       bigint REFERENCES blobs,
    size       bigint NOT NULL,
    created_at bigint NOT NULL
);
CREATE INDEX objects_blob ON objects (blob);
