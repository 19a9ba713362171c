"""The server on this machine: the launcher's commands."""
