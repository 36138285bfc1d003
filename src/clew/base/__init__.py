"""Values and helpers that every room may use: messages, ids, pages, files, buckets. It imports only `clew.errors`."""
