"""Imported for what it sets, before any model is defined: Pydantic makes the validator of a model
when the model is first used, and not when it is defined. A process that starts defines 400 models
and uses few of them; to make all validators is a quarter of its start.
"""

from pydantic import BaseModel

BaseModel.model_config["defer_build"] = True
