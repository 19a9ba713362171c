"""The tools that come with the server, as agents hold them: by id."""

from collections.abc import Iterable

from libs.contracts.tools.base_tools.catalogue import CATALOGUE
from libs.contracts.tools.base_tools.definition import BaseTool

# Longer ones are cut when a model's answer is read, and are no JSON any more.
TOOL_ARGUMENTS_CHARS_MAX = 600_000


def tools_of(tool_ids: Iterable[str]) -> list[BaseTool]:
    """The tools of these ids, without those that the catalogue does not have: a newer server may
    have known them."""
    return [CATALOGUE[one] for one in tool_ids if one in CATALOGUE]
