"""`clew hook`: saves the files of a coding agent and imports its transcript."""
