"""Tells in its log what a process finds around it, and does what WISH says."""

import gc
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

FILES = Path("/proc/self/fd")

if __name__ == "__main__":
    usual = (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP)
    facts = {
        "environment": dict(os.environ),
        "argv": sys.argv,
        "folder": str(Path.cwd()),
        "files": sorted(int(number) for number in os.listdir(FILES) if (FILES / number).exists()),
        "group": os.getpgid(0),
        "parent": os.getppid(),
        "umask": os.umask(0),
        "stdin": Path("/proc/self/fd/0").readlink().name,
        "signals": [signal.getsignal(each) == signal.SIG_DFL for each in usual],
        "threads": threading.active_count(),
        "random": random.random(),
        "frozen": gc.get_freeze_count() > 0 and gc.isenabled(),
    }
    print(json.dumps(facts), flush=True)
    match os.environ["WISH"]:
        case "end":
            sys.exit("HEELER_WISH is wrong")
        case "fail":
            raise ValueError("a bug")
        case _:
            time.sleep(600)
