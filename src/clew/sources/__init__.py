"""Histories of other programs, read into a store: one module for each format."""
