"""Promises about damage, backups and old formats."""
