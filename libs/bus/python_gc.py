"""How Python's garbage collector is set in the processes of the services."""

from __future__ import annotations

import gc

# New objects between two collections; Python's own figure is 700. There are few cycles to be found,
# and what holds no cycle is freed without a collection.
NEW_OBJECTS_MAX = 20_000


def freeze_what_is_loaded() -> None:
    """Leave out of every collection what this process has loaded by now: code, models and routes,
    which stay as long as it does. To go through those 100,000 objects takes 50 ms and more, in
    which nobody is answered."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX)
