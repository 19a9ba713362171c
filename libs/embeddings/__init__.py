"""Texts as vectors of unit length, whichever model makes them."""
