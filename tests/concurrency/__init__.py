"""Many writers on one store: nothing lost, nobody starved."""
