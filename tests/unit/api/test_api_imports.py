"""What a start of the api costs besides the modules that it imports."""

from __future__ import annotations

import subprocess
import sys

# Those of the tools of the MCP endpoint, which are listed at the start, and a few parts of unions.
BUILT_MAX = 40
DEFINED_MIN = 300
PROGRAM = """
from pydantic import BaseModel
import services.api.app

def all_below(kind):
    for each in kind.__subclasses__():
        yield each
        yield from all_below(each)

models = {*all_below(BaseModel)}
print(len(models), sum(model.__pydantic_complete__ for model in models))
"""


def test_models_are_built_when_they_are_first_used() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, timeout=60, capture_output=True, text=True
    )
    defined, built = map(int, done.stdout.split())
    assert defined > DEFINED_MIN
    assert built < BUILT_MAX
