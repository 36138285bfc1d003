"""Tests of `clew.turns`."""
