"""Which kinds of file are read, and how."""

from __future__ import annotations

KIND_OF_ENDING = {
    "pdf": "pdf",
    "html": "html",
    "htm": "html",
    "docx": "docx",
    "xlsx": "xlsx",
    "pptx": "pptx",
}
KIND_OF_TYPE = {
    "application/pdf": "pdf",
    "text/html": "html",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
}


def kind_of(name: str, file_type: str) -> str:
    """How a file is read: as one of the kinds of `file_parsing`, mostly as text."""
    ending = name.rpartition(".")[2].lower()
    return KIND_OF_TYPE.get(file_type) or KIND_OF_ENDING.get(ending, "text")
