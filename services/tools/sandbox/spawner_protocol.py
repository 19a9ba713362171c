"""What the services, the spawner and the process inside agree on, as the services write it."""

from __future__ import annotations

STAGE = "/mnt"
PROGRAM_PATH = "/run/program.py"
LENGTH_BYTES = 4
READY = b"R"
MESSAGE_BYTES_MAX = 1 << 17
PROGRAM_BYTES_MAX = 8 << 20
RESULT_BYTES_MAX = 2 << 20
