"""How commands print: text, JSON, tables, trees, documents, progress, times."""
