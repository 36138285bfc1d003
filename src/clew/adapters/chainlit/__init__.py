"""Chainlit keeps users, threads, steps, elements and feedback in clew."""

from __future__ import annotations

from clew.adapters.framework import framework

with framework("chainlit"):
    from clew.adapters.chainlit.layer import ClewDataLayer

__all__ = ["ClewDataLayer"]
