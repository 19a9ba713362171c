"""A stand-in for language models: OpenAI's wire and Anthropic's, replies scripted by the user."""

from tests.scripted_model.handle import Admin, ScriptedModel, ScriptedModelProcess

__all__ = ["Admin", "ScriptedModel", "ScriptedModelProcess"]
