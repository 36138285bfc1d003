"""How stored bytes are framed, checked and encrypted."""
