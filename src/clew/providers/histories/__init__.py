"""The messages of histories that clew only reads: one module for each format, with `blocks` and `role`."""
