"""Whether the keys open the secrets that are stored."""

from __future__ import annotations

from contextlib import closing

import psycopg

from deploy.doctor.examined import Examined
from deploy.doctor.findings import Finding, ok, problem, skip
from deploy.doctor.postgres_checks import NOT_RUNNING, connect
from deploy.doctor.settings_checks import keys_of, keys_of_home
from libs.contracts.environment_parsing import WrongSetting
from libs.contracts.service_registry import ENCRYPTION_KEYS
from libs.encryption.sealer import CannotOpen, Sealer

SECRETS_TRIED_MAX = 100
FORM = r"sealed:[A-Za-z0-9_=-]+"
STORED = f"""
(select substring(secrets::text from '{FORM}') from agent.agents
 where secrets is not null limit {SECRETS_TRIED_MAX})
union
(select substring(document::text from '{FORM}') from tools.mcp_servers limit {SECRETS_TRIED_MAX})
union
(select substring(value from '{FORM}') from tools.sandbox_variables limit {SECRETS_TRIED_MAX})
"""


def check_stored_secrets(examined: Examined) -> Finding:
    """Whether a hundred of each kind of stored secret can be opened. None of them is shown."""
    if examined.database_url is None:
        return skip(NOT_RUNNING)
    try:
        with closing(connect(examined.database_url)) as connection:
            sealed = [row[0] for row in connection.execute(STORED).fetchall() if row[0]]
    except psycopg.Error:  # it cannot be reached, has no such tables, or does not show them
        return skip("the secrets in Postgres cannot be read: see `postgres`, `migrations`")
    try:
        closed = _closed(keys_of(examined), sealed)
    except (OSError, ValueError, WrongSetting):
        return skip("there are no keys to open them with: see `encryption`")
    if not closed:
        return ok(
            f"the keys open what is stored ({len(sealed)} tried)" if sealed else "none is stored"
        )
    text = f"the keys open {len(sealed) - len(closed)} of {len(sealed)} stored secrets"
    if examined.environment.get(ENCRYPTION_KEYS):
        try:
            if not _closed(keys_of_home(examined), sealed):
                return problem(f"{text}; those of the home open all", f"unset {ENCRYPTION_KEYS}")
        except (OSError, ValueError):
            pass  # then the home has no keys
        fix = f'export {ENCRYPTION_KEYS}="${ENCRYPTION_KEYS},<the older key>"'
        return problem(f"{text}: an older key is missing", fix)
    return problem(
        f"{text}: an older key is missing",
        f"echo <the older key> >> {examined.home / 'encryption.keys'}",
    )


def _closed(keys: Sealer, sealed: list[str]) -> list[str]:
    """Those that the keys do not open."""
    found = []
    for text in sealed:
        try:
            keys.open(text)
        except CannotOpen:
            found.append(text)
    return found
