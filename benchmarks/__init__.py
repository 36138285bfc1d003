"""How fast clew is, as ratios to bare SQLite in the same run, and beside other stores: `python -m benchmarks`.

`floor` is what everything is compared with, `peers` are the other stores, `measure` is how time is taken. The other
modules hold the measures. docs/benchmarks.md says how far to believe them.
"""
