"""Makes small histories with the genuine programs, in a throw-away home and against a scripted server on loopback."""
