"""`clew` on a terminal: all sessions on one screen, to be searched, looked into, and gone on with."""
