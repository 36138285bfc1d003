"""What `clew import` and `clew sources` share: histories found on this machine, and what became of files."""
