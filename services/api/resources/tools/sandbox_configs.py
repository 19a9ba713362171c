"""The settings of the sandbox: packages that all tools have, and environment variables."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field
from pydantic_core import from_json

from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.tool_requests import LocalSandbox
from libs.contracts.tools.sandbox_configs import (
    KIND,
    VARIABLE_KIND,
    DeleteSandboxConfig,
    DeleteSandboxVariable,
    LocalSandboxConfig,
    RecreatePackages,
    Requirement,
    SetSandboxConfig,
    SetSandboxVariable,
    UpdateSandboxVariable,
    sandbox_config_id,
)
from services.api.adapters.resource_query_builder import Filter, Resource, Where
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import (
    PAGE_ITEMS_MAX,
    AnyRequest,
    Page,
    body_of,
    query_of,
    valid_id,
)
from services.api.openapi.operation import delete, get, patch, post
from services.api.v1.read_model_responses import answer_document, answer_page, document_of
from services.api.v1.secret_sealing import MARK

PATH = "/v1/sandbox-config"
CONFIG = f"{PATH}/{{sandbox_config_id:str}}"
VARIABLES_OF = f"{CONFIG}/environment-variable"
VARIABLE = f"{PATH}/environment-variable/{{env_var_id:str}}"
WHO_AND_WHEN = (
    "'created_by_id', null, 'last_updated_by_id', null, 'created_at', v.created_at,"
    " 'updated_at', v.updated_at, 'id', v.id"
)
CONFIGS = Resource(
    kind=KIND,
    view="tools.sandbox_config_view",
    document=f"json_build_object({WHO_AND_WHEN}, 'type', v.type, 'organization_id', v.org,"
    " 'config', v.config)",
)
# The value stands last, where the api puts what it opens.
VARIABLES = Resource(
    kind=VARIABLE_KIND,
    view="tools.sandbox_variable_view",
    document=f"left(json_build_object({WHO_AND_WHEN}, 'key', v.key, 'description', v.description,"
    " 'organization_id', v.org, 'value_enc', null, 'sandbox_config_id', v.config_id)::text, -1)"
    f" || ', \"value\": ' || chr({ord(MARK)}) || v.value || chr({ord(MARK)}) || '}}'",
)
NO_E2B = (
    "This server runs tools in its own sandbox, of type local, and asks no E2B:"
    " `POST /v1/sandbox-config/local/default`"
)


class ConfigPage(Page):
    """Which settings."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = PAGE_ITEMS_MAX
    order: Literal["asc", "desc"] = "asc"
    sandbox_type: Annotated[Literal["e2b", "modal", "local"] | None, Where("v.type = {}")] = None


class VariablePage(Page):
    """Which variables of a sandbox."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = PAGE_ITEMS_MAX
    order: Literal["asc", "desc"] = "asc"


def settings_of(body: LocalSandbox) -> LocalSandboxConfig:
    """The settings that a client wants; a folder of the server's is never used, only shown."""
    folder = {} if body.sandbox_dir is None else {"sandbox_dir": body.sandbox_dir}
    return LocalSandboxConfig(
        **folder,
        use_venv=body.use_venv,
        venv_name=body.venv_name,
        pip_requirements=[
            Requirement(name=requirement.name, version=requirement.version)
            for requirement in body.pip_requirements
        ],
    )


async def answer_settings(request: AnyRequest) -> Response[bytes]:
    """The settings of the organisation."""
    return await answer_document(request, CONFIGS, sandbox_config_id(org_of(request)))


async def become(
    request: AnyRequest, config: LocalSandboxConfig, *, only_default: bool = False
) -> Response[bytes]:
    """Have settings, and show them."""
    command = SetSandboxConfig(
        config_id=sandbox_config_id(org_of(request)), config=config, only_default=only_default
    )
    await api_of(request).send(request, command)
    return await answer_settings(request)


@post(PATH, "settings", body=bodies.SandboxConfigCreate)
async def create_sandbox_config(request: AnyRequest) -> Response[bytes]:
    """Create the settings of the sandbox, or change those that are there: there is one of a type.
    Nothing but type local is used by this server."""
    body = await body_of(request, bodies.SandboxConfigCreate)
    return await become(request, settings_of(body.config))


@post(f"{PATH}/local/default", "settings")
async def create_default_local_sandbox_config(request: AnyRequest) -> Response[bytes]:
    """Retrieve the settings of the sandbox, which are made if there are none."""
    return await become(request, LocalSandboxConfig(), only_default=True)


@post(f"{PATH}/e2b/default", "nothing")
async def create_default_e2b_sandbox_config(request: AnyRequest) -> Response[bytes]:
    """Refused in words: this server has a sandbox of its own."""
    raise Problem(422, {"detail": NO_E2B})


@post(f"{PATH}/local", "settings", body=LocalSandbox)
async def create_custom_local_sandbox_config(request: AnyRequest) -> Response[bytes]:
    """Create the settings of the sandbox, or change those that are there."""
    return await become(request, settings_of(await body_of(request, LocalSandbox)))


@post(f"{PATH}/local/recreate-venv", "settings")
async def force_recreate_local_sandbox_venv(request: AnyRequest) -> Response[bytes]:
    """Have all packages of tools installed anew: the next call of each tool does that."""
    command = RecreatePackages(config_id=sandbox_config_id(org_of(request)))
    await api_of(request).send(request, command)
    return await answer_settings(request)


@patch(CONFIG, "settings", body=bodies.SandboxConfigUpdate)
async def update_sandbox_config(request: AnyRequest, sandbox_config_id: str) -> Response[bytes]:
    """Change the settings of the sandbox."""
    body = await body_of(request, bodies.SandboxConfigUpdate)
    config_id = valid_id(KIND, sandbox_config_id)
    if body.config is not None:
        command = SetSandboxConfig(
            config_id=config_id, config=settings_of(body.config), must_exist=True
        )
        await api_of(request).send(request, command)
    return await answer_document(request, CONFIGS, config_id)


@delete(CONFIG, "nothing", status_code=204)
async def delete_sandbox_config(request: AnyRequest, sandbox_config_id: str) -> None:
    """Delete the settings of the sandbox, and its variables with them."""
    command = DeleteSandboxConfig(config_id=valid_id(KIND, sandbox_config_id))
    await api_of(request).send(request, command)


@get(PATH, "all settings", query=ConfigPage)
async def list_sandbox_configs(request: AnyRequest) -> Response[bytes]:
    """List the settings of sandboxes: those of type local, if there are any."""
    return await answer_page(request, CONFIGS, query_of(request, ConfigPage))


@post(VARIABLES_OF, "variable", body=bodies.SandboxEnvironmentVariableCreate)
async def create_sandbox_env_var(request: AnyRequest, sandbox_config_id: str) -> Response[bytes]:
    """Create an environment variable of the sandbox, or change the one of its name."""
    body = await body_of(request, bodies.SandboxEnvironmentVariableCreate)
    api = api_of(request)
    command = SetSandboxVariable(
        config_id=valid_id(KIND, sandbox_config_id),
        variable_id=api.new_id(request, VARIABLE_KIND, sandbox_config_id),
        key=body.key,
        value=api.sealer.seal(body.value),
        description=body.description,
    )
    reply = await api.send(request, command)
    return await answer_document(request, VARIABLES, str(reply.result["variable_id"]))


@get(VARIABLES_OF, "variables", query=VariablePage)
async def list_sandbox_env_vars(request: AnyRequest, sandbox_config_id: str) -> Response[bytes]:
    """List the environment variables of the sandbox."""
    config_id = valid_id(KIND, sandbox_config_id)
    await document_of(request, CONFIGS, config_id)
    values = {"org": org_of(request), "config_id": config_id}
    found = Filter(["v.org = %(org)s", "v.config_id = %(config_id)s"], values)
    return await answer_page(request, VARIABLES, query_of(request, VariablePage), found)


async def config_of(request: AnyRequest, variable_id: str) -> str:
    """The settings that a variable is of; raises the 404 of one that is not there."""
    config_id: str = from_json(
        await document_of(request, VARIABLES, variable_id, document="to_jsonb(v.config_id)")
    )
    return config_id


@patch(VARIABLE, "variable", body=bodies.SandboxEnvironmentVariableUpdate)
async def update_sandbox_env_var(request: AnyRequest, env_var_id: str) -> Response[bytes]:
    """Change the given fields of an environment variable of the sandbox."""
    body = await body_of(request, bodies.SandboxEnvironmentVariableUpdate)
    api = api_of(request)
    command = UpdateSandboxVariable(
        config_id=await config_of(request, env_var_id),
        variable_id=env_var_id,
        key=body.key,
        value=None if body.value is None else api.sealer.seal(body.value),
        description=body.description,
    )
    await api.send(request, command)
    return await answer_document(request, VARIABLES, env_var_id)


@delete(VARIABLE, "nothing", status_code=204)
async def delete_sandbox_env_var(request: AnyRequest, env_var_id: str) -> None:
    """Delete an environment variable of the sandbox."""
    config_id = await config_of(request, env_var_id)
    command = DeleteSandboxVariable(config_id=config_id, variable_id=env_var_id)
    await api_of(request).send(request, command)
