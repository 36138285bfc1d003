"""clew's own export: a store or some of its sessions as lines of JSON, and back, with numbers, times and holds."""
