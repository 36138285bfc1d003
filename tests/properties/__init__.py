"""What must hold for any sequence of steps."""
