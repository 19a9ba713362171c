"""Addresses of models as they may be stored and shown: nobody can log in by them."""

import re
from typing import Annotated

from pydantic import AfterValidator

# Whoever has these in an address is let in: a login before the host, a key among the parameters.
_LOGIN = re.compile(r"^([a-z][a-z0-9+.-]*:)?//[^/?#]*@", re.IGNORECASE)
_PARAMETER = re.compile(r"(?<=[?&])[^=&#?]*+=")
_END = re.compile(r"&|(?=#)|\Z")  # of the value of a parameter
_SECRET = re.compile("key|token|secret|password|passwd|auth|credential|sig", re.IGNORECASE)


def without_credentials(address: str | None) -> str | None:
    """The address without a login and without parameters that look like a key."""
    if address is None:
        return None
    return _without_keys(_LOGIN.sub(r"\1//", address)).rstrip("?&")


def _without_keys(address: str) -> str:
    """The address without parameters that look like a key. Each character is read once."""
    kept, end = [], 0
    for found in _PARAMETER.finditer(address):
        if found.start() >= end and _SECRET.search(found[0]):
            kept.append(address[end : found.start()])
            behind = _END.search(address, found.end())
            end = len(address) if behind is None else behind.end()
    return "".join([*kept, address[end:]])


Address = Annotated[str | None, AfterValidator(without_credentials)]
