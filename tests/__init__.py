"""The tests: folders mirror what they keep."""
