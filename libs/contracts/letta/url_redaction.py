"""Addresses of models as they may be stored and shown: nobody can log in by them."""

import re
from typing import Annotated

from pydantic import AfterValidator

# Whoever has these in an address is let in: a login before the host, a key among the parameters.
_LOGIN = re.compile(r"^([a-z][a-z0-9+.-]*:)?//[^/?#]*@", re.IGNORECASE)
_KEY = re.compile(
    r"(?<=[?&])[^=&#]*(?:key|token|secret|password|passwd|auth|credential|sig)[^=&#]*=[^&#]*&?",
    re.IGNORECASE,
)


def without_credentials(address: str | None) -> str | None:
    """The address without a login and without parameters that look like a key."""
    if address is None:
        return None
    return _KEY.sub("", _LOGIN.sub(r"\1//", address)).rstrip("?&")


Address = Annotated[str | None, AfterValidator(without_credentials)]
