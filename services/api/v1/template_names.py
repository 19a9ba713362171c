"""Templates as paths name them: `name`, `name:version`, in a project or in none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from libs.contracts.api.templates import DEFAULT_PROJECT
from services.api.adapters.resource_query_builder import Filter, Resource
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest

LATEST, WORKING = "latest", ("current", "dev")
VERSION_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
# As it stands in a segment of a path that has one.
ENCODED_SLASH = "%2F"
PROJECT_HEADERS = ("x-project-id", "x-project")
# As `slug_of` makes it of the name of a project.
SLUG = "trim(both '-' from regexp_replace(lower(p.name), '[^a-z0-9]+', '-', 'g'))"
PROJECT_SLUG = (
    f"coalesce((select {SLUG} from api.project_view p where p.id = v.project_id"
    " and p.org = v.org), v.project_id)"
)
PROJECTS = Resource(kind="project", view="api.project_view", document="v.id")
DOCUMENT = (
    "json_build_object('id', v.id, 'name', v.name, 'project_id', v.project_id, 'project_slug',"
    f" {PROJECT_SLUG}, 'description', v.description, 'latest_version', x.version,"
    f" 'template_deployment_slug', {PROJECT_SLUG} || '/' || v.name || ':' || x.version,"
    " 'updated_at', to_char(v.updated_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'))"
)
# A version as clients name it.
VERSION = "case v.version when 0 then 'current' else v.version::text end"
TEMPLATES = Resource(
    kind="template",
    view="api.template_view",
    document=f"(select {DOCUMENT} from (select {VERSION} as version) x)",
    sort_keys={"created_at": "v.created_at", "updated_at": "v.updated_at"},
)
IDS = "json_build_object('template_id', v.template_id, 'latest_version', v.latest_version)"


@dataclass(frozen=True, slots=True)
class NamedTemplate:
    """A template that is there."""

    id: str
    name: str
    project_id: str
    latest_version: int


async def project_of(request: AnyRequest, project_id: str | None = None) -> str:
    """The project of a request: that of its path, by id or by name, else that which the client
    works in, else the one of templates that name none. One that is not there, or no more, may
    still have templates."""
    headers = (request.headers.get(name) for name in PROJECT_HEADERS)
    wanted = project_id or next((value for value in headers if value), DEFAULT_PROJECT)
    wanted = without_nul(wanted)
    return await known_project(request, wanted) or wanted


async def project_for_new(request: AnyRequest, project_id: str | None) -> str:
    """The same for a new template; raises the 404 for a project that is not there."""
    wanted = await project_of(request, project_id)
    if await known_project(request, wanted) is None:
        raise Problem(404, {"detail": f"Project '{wanted[:100]}' not found"})
    return wanted


async def known_project(request: AnyRequest, wanted: str) -> str | None:
    """The id of a project that has this id, this name or this slug; None where there is none."""
    if wanted == DEFAULT_PROJECT:
        return wanted
    found = Filter(
        ["v.org = %(org)s", f"%(wanted)s in (v.id, v.name, {SLUG.replace('p.name', 'v.name')})"],
        {"org": org_of(request), "wanted": wanted},
    )
    order = "v.id <> %(wanted)s, v.name <> %(wanted)s, v.created_at, v.id"
    project = await api_of(request).reads.first(PROJECTS, found, order=order)
    return None if project is None else project.decode()


async def named_template(
    request: AnyRequest, name: str, project_id: str | None = None
) -> NamedTemplate:
    """The template of a name, in a project, which may stand in one segment with the name; raises
    the 404 that names both."""
    before, slash, after = without_nul(name).partition(ENCODED_SLASH)
    name = after if slash else before
    project = await project_of(request, project_id or (before if slash else None))
    found = Filter(
        ["v.org = %(org)s", "v.name = %(name)s", "v.project_id = %(project)s", "v.version = 0"],
        {"org": org_of(request), "name": name, "project": project},
    )
    document = await api_of(request).reads.first(TEMPLATES, found, document=IDS)
    if document is None:
        detail = f"Template '{name[:100]}' not found in project '{project[:100]}'"
        raise Problem(404, {"detail": detail})
    ids: dict[str, Any] = from_json(document)
    return NamedTemplate(ids["template_id"], name, project, ids["latest_version"])


def without_nul(text: str) -> str:
    """A text of a path without the character that Postgres cannot be asked for."""
    return text.replace("\x00", "")


def without_version(name: str) -> str:
    """The name of a template, without a version that was appended to it."""
    return name.partition(":")[0]


def name_and_version(text: str) -> tuple[str, int | None]:
    """The name and the version in `name:version`: 0 for the latest, which is also meant without
    one, None for the working version. Raises the 422 for what is no version."""
    name, _, version = text.partition(":")
    return name, version_number(version or LATEST, "template_version")


def version_number(version: str, field: str) -> int | None:
    """The number of a version: 0 for the latest, None for the working version. Raises the 422."""
    if version in WORKING:
        return None
    if version == LATEST:
        return 0
    if VERSION_NUMBER.fullmatch(version):
        return int(version)
    detail = f"`{field}`: '{version[:50]}' is no version: use a number from 1, latest or current"
    raise Problem(422, {"detail": detail})


def saved_version_number(version: str) -> int:
    """The number of a saved version, 0 for the latest. Raises the 422 for the working version."""
    number = version_number(version, "version")
    if number is None:
        detail = f"`version`: '{version}' is the working version: name a saved one, or latest"
        raise Problem(422, {"detail": detail})
    return number
