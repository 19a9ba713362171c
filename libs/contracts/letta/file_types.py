"""Which types of file can be uploaded."""

from __future__ import annotations

WORD = "application/vnd.openxmlformats-officedocument"
# By the ending of the name.
FILE_TYPES = {
    "pdf": "application/pdf",
    "docx": f"{WORD}.wordprocessingml.document",
    "xlsx": f"{WORD}.spreadsheetml.sheet",
    "pptx": f"{WORD}.presentationml.presentation",
    "txt": "text/plain",
    "text": "text/plain",
    "log": "text/plain",
    "md": "text/markdown",
    "markdown": "text/markdown",
    "rst": "text/x-rst",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "html": "text/html",
    "htm": "text/html",
    "xml": "application/xml",
    "yaml": "text/x-yaml",
    "yml": "text/x-yaml",
    "toml": "application/toml",
    "ini": "text/x-ini",
    "cfg": "text/x-conf",
    "conf": "text/x-conf",
    "py": "text/x-python",
    "js": "text/javascript",
    "mjs": "text/javascript",
    "ts": "text/x-typescript",
    "jsx": "text/x-jsx",
    "tsx": "text/x-tsx",
    "vue": "text/x-vue",
    "java": "text/x-java-source",
    "cpp": "text/x-c++",
    "cxx": "text/x-c++",
    "c": "text/x-c",
    "h": "text/x-c",
    "cs": "text/x-csharp",
    "php": "text/x-php",
    "rb": "text/x-ruby",
    "go": "text/x-go",
    "rs": "text/x-rust",
    "swift": "text/x-swift",
    "kt": "text/x-kotlin",
    "scala": "text/x-scala",
    "r": "text/x-r",
    "m": "text/x-objective-c",
    "css": "text/css",
    "scss": "text/x-scss",
    "sass": "text/x-sass",
    "less": "text/x-less",
    "sh": "text/x-shellscript",
    "bash": "text/x-shellscript",
    "ps1": "text/x-powershell",
    "bat": "text/x-batch",
    "cmd": "text/x-batch",
    "dockerfile": "text/x-dockerfile",
    "sql": "text/x-sql",
}
# What clients call some of them besides.
ALIASES = {"text/x-markdown", "application/x-jsonlines", "text/xml"}
KNOWN = {*FILE_TYPES.values(), *ALIASES}


def type_of(name: str, declared: str) -> str | None:
    """The type of a file that can be uploaded, by the ending of its name, else as its client
    declares it; None for one that cannot."""
    ending = name.rpartition(".")[2].lower()
    by_name = FILE_TYPES.get(ending)
    media = declared.partition(";")[0].strip().lower()
    return by_name or (media if media in KNOWN else None)
