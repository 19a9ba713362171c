"""Embedding models: the one that comes with the server, and those of endpoints."""
