"""Chat clients: each provider's SDK against a server on this machine that speaks its protocol."""
