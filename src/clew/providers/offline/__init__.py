"""A provider that needs no network and no key: it echoes its input."""
