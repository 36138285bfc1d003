"""The record service, on real stores."""
