"""Agent frameworks that keep their sessions in clew: one module for each, imported only with its framework."""
