"""Programs that write and check parts of the repository."""
