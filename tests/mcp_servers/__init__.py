"""Servers that do as they are bid, well or badly, over every transport."""
