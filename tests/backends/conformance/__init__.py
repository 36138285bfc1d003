"""The published contract, poured through every backend."""
