"""Words in, nodes out: the query, the index beside a file, the index on a server."""
