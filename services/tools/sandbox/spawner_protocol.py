"""Protocol between the services, the spawner and the process inside, as the services write it."""

from __future__ import annotations

STAGE = "/mnt"
PROGRAM_PATH = "/run/program.py"
PACKAGES_PATH = "/packages"
WORKSPACE_PATH = "/workspace"
LENGTH_BYTES = 4
# One byte: it waits for a program; LOCKED where Landlock keeps it from other files.
READY, LOCKED = b"R", b"L"
MESSAGE_BYTES_MAX = 1 << 17
PROGRAM_BYTES_MAX = 8 << 20
RESULT_BYTES_MAX = 2 << 20
