"""What a chat client says and hears is stored as it happens."""
