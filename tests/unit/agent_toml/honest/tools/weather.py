import os

import httpx


def weather(place: str) -> str:
    """Say what the weather is like.

    Args:
        place: the name of a town
    """
    token = os.environ["WEATHER_TOKEN"]
    answer = httpx.get("https://weather.example.com/now", params={"q": place, "token": token})
    return answer.text
