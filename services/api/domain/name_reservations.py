"""The keys of identities in a project."""

from __future__ import annotations

from libs.contracts.api.identities import IdentityKeyFreed, IdentityKeyTaken
from libs.contracts.unique_names import UniqueName


class IdentityKey(UniqueName):
    """The key of an identity: one identity of a project has it at a time."""

    taken, freed, owner_field = IdentityKeyTaken, IdentityKeyFreed, "identity_id"
