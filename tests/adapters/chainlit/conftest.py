"""Chainlit writes its settings into a folder when it is imported: not into this one."""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault("CHAINLIT_APP_ROOT", tempfile.mkdtemp())
