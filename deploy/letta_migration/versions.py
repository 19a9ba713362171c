"""Which Letta release made a database: told by the revision of its schema."""

from __future__ import annotations

# The revisions of the schema of 0.16.x, with the release that brought each.
REVISIONS = {
    "d0880aae6cee": "0.16.0",
    "39577145c45d": "0.16.1",
    "ee2b43eea55e": "0.16.2",
    "27de0f58e076": "0.16.2",
    "cf3c4d025dbc": "0.16.3",
    "a1b2c3d4e5f7": "0.16.3",
    "539afa667cff": "0.16.3",
    "82feb220a9b8": "0.16.3",
    "308a180244fc": "0.16.4",
    "297e8217e952": "0.16.4",
    "9275f62ad282": "0.16.4",
    "a1b2c3d4e5f8": "0.16.4",
    "3e54e2fa2f7e": "0.16.5",
    "b2c3d4e5f6a8": "0.16.5",
    "45402909a46b": "0.16.7",
    "9fa274fb0b83": "0.16.7",
    "a08c972e781b": "0.16.7",
    "1c28e167b74f": "0.16.8",
}
NEWEST = "0.16.8"
OLDER = frozenset(
    {
        "2e5e90d3cdf8", "af842aa6f743", "175dd10fb916", "b1c2d3e4f5a6", "2dbb2cf49e07",
        "a1b2c3d4e5f6", "d798609d65ff", "89fd4648866b", "f6cd5a1e519d", "c6c43222e2de",
        "6756d04c3ddb", "e67961ed7c32", "8149a781ac1b", "066857381578", "c734cfc0d595",
        "038e68cdf0df", "b6061da886ee", "89b595051e48", "f9ad1c25fd2b", "3bc3c031fbe4",
        "567e9fe06270", "3d2e9fb40a3c", "57bcea83af3f", "5973fd8b8c60", "eff256d296cb",
        "7f7933666957", "d06594144ef3",
    }
)  # fmt: skip


class UnknownDatabase(Exception):
    """The database cannot be taken over; the message says what to do."""


def release_of(revision: str | None) -> str:
    """The release that made the schema. Raises UnknownDatabase where it is none of 0.16.x."""
    if revision is None:
        raise UnknownDatabase(
            "There is no table `alembic_version`: this is no database of a Letta server"
        )
    release = REVISIONS.get(revision)
    if release is not None:
        return release
    if revision in OLDER:
        raise UnknownDatabase(
            f"The schema is of revision {revision}, which is older than 0.16.0: start a Letta"
            " server 0.16.8 on this database once, which upgrades it, and migrate then"
        )
    raise UnknownDatabase(
        f"The schema is of revision {revision}, which no release 0.16.0 to 0.16.8 has. If it is"
        " older, start a Letta server 0.16.8 on this database once and migrate then; if it is"
        " newer, this release of Heeler cannot read it"
    )
