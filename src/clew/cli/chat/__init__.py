"""`clew chat` and `clew run`: the prompt, the answer on the screen, slash commands."""
