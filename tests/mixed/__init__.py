"""Processes of this release beside those of another checkout, on one home."""
