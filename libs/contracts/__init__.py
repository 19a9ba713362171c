"""The language of the system: commands, events, queries, and the wire format of V1.

Nothing is imported here: the launcher and the command read the registry of services at every call,
and Pydantic takes longer to load than all that they do.
"""
