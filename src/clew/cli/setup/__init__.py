"""How commands begin: settings, keys, the store to open, questions to a person."""
