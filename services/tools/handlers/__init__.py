"""Commands to the tools service."""
