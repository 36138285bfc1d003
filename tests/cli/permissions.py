"""Runs a program for which the permissions of files count, also if the tests run as root."""

import ctypes
import os
import subprocess
import sys

_DROP_FROM_BOUNDING_SET = 24
_OVERRIDES = (1, 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: with them root reads every file."""


def obey() -> None:
    """For `preexec_fn`: the program started next may read only what the modes of files allow."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in _OVERRIDES:
            if libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "cannot drop the capability")


def unenforced() -> str:
    """Why permissions cannot be tested here; empty if they can."""
    if os.name == "nt":
        return "needs POSIX permissions"
    try:
        subprocess.run([sys.executable, "-c", ""], check=True, preexec_fn=obey)
    except (OSError, subprocess.SubprocessError):
        return "this root user cannot give up its right to read every file"
    return ""
