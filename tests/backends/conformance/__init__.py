"""The published contract, tested with every backend."""
