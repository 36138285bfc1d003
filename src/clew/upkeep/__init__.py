"""Work on a whole store below its views: purge, verify, quarantine, backup, copy, change of keys."""
