"""Work on a whole store below its views: purge, verify, quarantine, copy, change of keys."""
