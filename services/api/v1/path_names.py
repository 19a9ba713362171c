"""Names in paths that clients give to things, checked as the fields of a body are."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from libs.contracts.letta import error_bodies
from services.api.http.error_responses import Problem


def valid_name(model: type[BaseModel], field: str, name: str) -> str:
    """A name that fits the field of this model; raises the 422 that says what is wrong with it."""
    try:
        model.model_validate({field: name})
    except ValidationError as invalid:
        raise Problem(422, error_bodies.validation_detail(invalid, "path")) from None
    return name
