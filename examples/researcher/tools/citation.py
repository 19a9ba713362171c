def citation(title: str, url: str, year: int | None = None) -> str:
    """Format a source in the way in which all answers name their sources.

    Args:
        title: The title of the page or paper.
        url: Its address.
        year: When it was published, if that is known.
    """
    from urllib.parse import urlsplit

    host = urlsplit(url).hostname or url
    when = f" ({year})" if year else ""
    return f"{title.strip()}{when}, {host.removeprefix('www.')}: {url}"
