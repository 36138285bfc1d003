"""What the rows of a backend mean: nodes, runs, refs, paths, blobs, logs, deletion. It has no class Session."""
