"""Every name that a span carries, in one place, since most of them may still change; and the types
of what stands under them.

GenAI names follow open-telemetry/semantic-conventions-genai at revision
002c8a6ea1c8a42b14a4527db83b3cabcded610a (all of them in *Development* there), the others the
general conventions of the version below. `session.id` and `user.id` are general ones too; viewers
of conversations group by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

type Value = str | bool | int | float | Sequence[str]
type Attributes = Mapping[str, Value]
type Kind = Literal["internal", "server", "client", "producer", "consumer"]

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.1"

# Operations
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
INVOKE_AGENT: Final = "invoke_agent"
CREATE_MEMORY: Final = "create_memory"
UPDATE_MEMORY: Final = "update_memory"
DELETE_MEMORY: Final = "delete_memory"
SEARCH_MEMORY: Final = "search_memory"

# GenAI
OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
AGENT_ID: Final = "gen_ai.agent.id"
AGENT_NAME: Final = "gen_ai.agent.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOKENS_MAX: Final = "gen_ai.request.max_tokens"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
MEMORY_RECORD_ID: Final = "gen_ai.memory.record.id"
MEMORY_RECORD_COUNT: Final = "gen_ai.memory.record.count"

# What people said: only when the operator opts in.
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"

# General
SERVICE_NAME: Final = "service.name"
SERVICE_VERSION: Final = "service.version"
SESSION_ID: Final = "session.id"
USER_ID: Final = "user.id"
ERROR_TYPE: Final = "error.type"
HTTP_METHOD: Final = "http.request.method"
HTTP_ROUTE: Final = "http.route"
HTTP_STATUS: Final = "http.response.status_code"
URL_PATH: Final = "url.path"
URL_SCHEME: Final = "url.scheme"
MESSAGING_SYSTEM: Final = "messaging.system"
MESSAGING_OPERATION: Final = "messaging.operation.type"
MESSAGING_DESTINATION: Final = "messaging.destination.name"
MESSAGE_ID: Final = "messaging.message.id"
MESSAGE_CORRELATION: Final = "messaging.message.conversation_id"
DB_SYSTEM: Final = "db.system.name"
DB_SUMMARY: Final = "db.query.summary"

# Ours
RUN_ID: Final = "heeler.run.id"
STEP_ID: Final = "heeler.step.id"
RESUMED: Final = "heeler.run.resumed"
STOP_REASON: Final = "heeler.run.stop_reason"
OUTCOME: Final = "heeler.command.outcome"
