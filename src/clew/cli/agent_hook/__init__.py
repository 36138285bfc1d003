"""`clew hook`: saves the files of a coding agent and copies its transcript."""
