"""A service as somebody adds it: copied to `services/counter` of a copy of the project, and its
messages to `libs/contracts/counter`."""
