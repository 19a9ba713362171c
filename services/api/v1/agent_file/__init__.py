"""Agent files (`.af`) of the retired Letta server: read to lines of the full form, and written."""
