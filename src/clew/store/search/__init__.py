"""Full-text search: queries, the index in a file next to the store, and the index on a server."""
