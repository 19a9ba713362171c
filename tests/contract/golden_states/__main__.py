"""`python -m tests.contract.golden_states --write`: accept the states that events make now."""

import json
import sys

from tests.contract.golden_states import FOLDER, meaning_changed, path_of, recorded, text_of
from tests.contract.histories import HISTORIES

if sys.argv[1:] != ["--write"]:
    sys.exit(__doc__)
for name, (kind, _) in HISTORIES.items():
    path = path_of(name)
    if path.exists() and meaning_changed(name, json.loads(path.read_text())):
        revision = f"{kind.__name__}.state_revision"
        sys.exit(f"{name}: the same events make another state, so raise {revision} first")
    path.write_text(text_of(recorded(name)))
for stale in set(FOLDER.glob("*.json")) - {path_of(name) for name in HISTORIES}:
    stale.unlink()
