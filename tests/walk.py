"""A new user in a clean container, by the clock: from a clone to the first answer and on through
the tutorial. Needs Docker: `python -m tests.walk`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from deploy.embedded.settings import CHECKOUT

IMAGE = "python:3.13-slim"
PASSED_ON = ("PIP_", "UV_", "SSL_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
CERTIFICATES = "/etc/ssl/certs"  # of a machine that reaches packages through a mirror


def main() -> int:
    """Run it; returns the exit code of the tutorial."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--image", default=IMAGE, help="with Python 3.12 or newer, and nothing else"
    )
    image = parser.parse_args().image
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "heeler"
        subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(clone)], check=True)
        variables = [name for name in os.environ if name.upper().startswith(PASSED_ON)]
        words = ["docker", "run", "--rm", "--network=host", f"--volume={clone}:/clone:ro"]
        words += [f"--volume={CERTIFICATES}:{CERTIFICATES}:ro"]
        words += [word for name in variables for word in ("--env", name)]
        inside = "cp -r /clone /heeler && cd /heeler && exec python3 -m tests.tutorial ."
        ended = subprocess.run([*words, image, "bash", "-c", inside])
    print(f"with the clone and the container: {time.monotonic() - began:.0f} s")
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
