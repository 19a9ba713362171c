"""The language of the system: commands, events, queries, and the wire format of V1."""

from pydantic import BaseModel

# Pydantic makes what validates a model when the model is first used, and not when it is defined: a
# process that starts defines 400 models and uses few of them. It is a quarter of its start.
BaseModel.model_config["defer_build"] = True
