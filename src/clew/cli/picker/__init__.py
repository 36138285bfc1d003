"""`clew` without a command: a screen to search, preview and resume sessions."""
