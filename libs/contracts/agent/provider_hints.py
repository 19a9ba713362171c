"""Hints to people who name a model of a provider that is not configured."""

from __future__ import annotations

# Servers that speak as OpenAI does, at which addresses: by the names that V1 has for them.
LIKE_OPENAI = {
    "ollama": "http://localhost:11434/v1",
    "vllm": "http://localhost:8000/v1",
    "sglang": "http://localhost:30000/v1",
    "lmstudio": "http://localhost:1234/v1",
    "lmstudio_openai": "http://localhost:1234/v1",
    "llamacpp": "http://localhost:8080/v1",
    "koboldcpp": "http://localhost:5001/v1",
    "google_ai": "https://generativelanguage.googleapis.com/v1beta/openai",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
    "azure": "https://<resource>.openai.azure.com/openai/v1",
    "bedrock": "https://bedrock-runtime.<region>.amazonaws.com/openai/v1",
    "groq": "https://api.groq.com/openai/v1",
    "together": "https://api.together.xyz/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "mistral": "https://api.mistral.ai/v1",
    "xai": "https://api.x.ai/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "cerebras": "https://api.cerebras.ai/v1",
    "fireworks": "https://api.fireworks.ai/inference/v1",
    "hugging-face": "https://router.huggingface.co/v1",
    "zai": "https://api.z.ai/api/paas/v4",
    "minimax": "https://api.minimax.io/v1",
    "moonshot": "https://api.moonshot.ai/v1",
}
GATEWAY = "https://<a gateway that speaks OpenAI's chat completions>/v1"
ELSEWHERE = {"google_vertex": GATEWAY, "chatgpt_oauth": GATEWAY}
KEYS = {
    "openai": "OPENAI_API_KEY, or OPENAI_API_BASE for a server that speaks as OpenAI does",
    "anthropic": "ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL for a server that speaks as Anthropic",
}
LETTA = "letta"
OLLAMA = "ollama"


def provider_hint(handle: str) -> str:
    """The way to configure the provider of a handle; empty for a provider that nobody knows."""
    name, _, model = handle.partition("/")
    if name in KEYS:
        return f"The provider {name} is not configured: start Heeler with {KEYS[name]}"
    if name == LETTA:
        return (
            "The models of Letta's own service are gone with it: set OPENAI_API_KEY, "
            "OPENAI_API_BASE or ANTHROPIC_API_KEY and choose a model of that provider"
        )
    address = LIKE_OPENAI.get(name) or ELSEWHERE.get(name)
    if address is None:
        return ""
    hint = (
        f"Heeler reaches {name} as it does OpenAI: start it with OPENAI_API_BASE={address} and "
        f"the key, if it wants one, in OPENAI_API_KEY, and name the model openai/{model}"
    )
    return f"{hint}; embedding models of {name} need OLLAMA_BASE_URL" if name == OLLAMA else hint
