"""The parts of a conversation as HTML: the web page and the HTML export use the same renderer."""
