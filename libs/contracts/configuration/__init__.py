"""The configuration of a server: what may be set, and as what."""
