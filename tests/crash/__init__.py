"""What survives when a process, a disk or a machine fails."""
