"""The keys of identities in a project, and the names of projects in an organisation."""

from __future__ import annotations

from libs.contracts.api.identities import IdentityKeyFreed, IdentityKeyTaken
from libs.contracts.api.projects import ProjectNameFreed, ProjectNameTaken
from libs.contracts.unique_names import UniqueName


class IdentityKey(UniqueName):
    """The key of an identity: one identity of a project has it at a time."""

    taken, freed, owner_field = IdentityKeyTaken, IdentityKeyFreed, "identity_id"


class ProjectName(UniqueName):
    """The name of a project: one project of an organisation has it at a time."""

    taken, freed, owner_field = ProjectNameTaken, ProjectNameFreed, "project_id"
