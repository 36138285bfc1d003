"""What `clew.open` returns: Store, Session, Sessions, Nodes and the other views on one engine."""
