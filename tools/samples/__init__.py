"""Scripts that make the samples in ``tests/sources/samples``: each runs a genuine program against a scripted server."""
