"""Requests full of text that is slow to read, and how much of the processor each takes (R41)."""
