"""The messages of histories that clew only reads: `<format>_blocks` and `<format>_role` for each."""
