"""The `heeler` command: a client of the API like any other, and the launcher of a local server."""
