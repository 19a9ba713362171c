"""A stand-in for a language model: OpenAI's wire, with replies that the user message scripts."""

from tests.scripted_model.handle import Admin, ScriptedModel, ScriptedModelProcess

__all__ = ["Admin", "ScriptedModel", "ScriptedModelProcess"]
