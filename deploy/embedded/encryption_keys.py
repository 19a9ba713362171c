"""The keys that seal secrets: made once for each home, in a file of their own that one can keep
apart from the data."""

from __future__ import annotations

from pathlib import Path

from deploy.embedded.settings import LaunchError
from deploy.embedded.state import write_private
from libs.contracts.environment_parsing import WrongSetting
from libs.contracts.service_registry import ENCRYPTION_KEYS
from libs.encryption.sealing_keys import new_key, read_keys

KEYS_FILE = "encryption.keys"


def open_encryption_keys(home: Path) -> str:
    """The keys of this home, one a line, as the services read them: with commas between them.
    Raises LaunchError for a file that holds something else."""
    path = home / KEYS_FILE
    if not path.exists():
        write_private(path, f"{new_key()}\n")
    try:
        keys = ",".join(path.read_text(encoding="ascii").split())
        read_keys({ENCRYPTION_KEYS: keys})
    except (OSError, ValueError, WrongSetting) as error:
        raise LaunchError(
            f"{path} is damaged; the secrets of agents cannot be read without its keys. Put the "
            "file back, or delete it: then new secrets get a new key, and the old ones must be set "
            "again."
        ) from error
    return keys
