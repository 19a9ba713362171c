"""`python -m tests.contract.golden --write`: accept the form that the messages have now."""

import sys

from tests.contract.golden import FOLDER, golden

if sys.argv[1:] != ["--write"]:
    sys.exit(__doc__)
wanted = golden()
for stale in set(FOLDER.rglob("*.json")) - wanted.keys():
    stale.unlink()
for path, text in wanted.items():
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
