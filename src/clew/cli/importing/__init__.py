"""What `clew import` and `clew sources` share: finding histories on this machine, and importing files."""
