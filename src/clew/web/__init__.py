"""The web page: reads, searches and compares conversations in a browser on the same machine."""
