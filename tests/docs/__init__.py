"""The documents run: every block of code in them, every example, and the pages that are generated."""
