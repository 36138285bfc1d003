"""One folder for each provider: how its messages are read, written, converted and sent; and the registry."""
