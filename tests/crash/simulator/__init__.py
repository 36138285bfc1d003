"""A simulator of crashes and power cuts. It drives any program that stores lines and acknowledges them.

`shim.c` records, under LD_PRELOAD, every write, sync and change of a name below a folder, and can make calls fail.
`volume.py` builds from such a record the folders that a disk may hold after a power cut. `__main__.py` is the harness.

The model: a file's data is durable up to the beginning of its last completed sync. Of later writes nothing, a prefix,
or any 512-byte sectors survive. Names are `journaled`, where a sync of any file commits earlier creates, renames and
unlinks, as on ext4 and XFS; or `strict`, where only a sync of the folder does. The shim does not see stdio's own
writes, io_uring, raw system calls, stores through a shared mapping (it reports those), or programs that ignore
LD_PRELOAD. The model has no disks that lie about flushes, no bit rot, and no failed sync that drops dirty pages.
"""
