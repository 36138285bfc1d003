"""One model of what is shown of a conversation: turns, answers, steps and notes, derived from its messages."""
