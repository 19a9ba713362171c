"""Escape users' text in a prompt that is marked up with tags, so that a user cannot write a tag.

Only what could be read as a tag is escaped, as in XML. `a < b`, `<3` and `R&D` stay as they are:
models see what people wrote, and pass it to their tools.
"""

import re

# What may stand behind a `<` that begins no tag: `<3`, `<=`, `<-`, `a < b`. All else might begin
# one, or end one, in the eyes of a model. An `&` is escaped where it would be taken for an escape.
_HARMLESS = r"""[\d=<>~-]|[ \t]+(?![^\s>]+\s*>)[\w"'(+.-]|\s*\Z"""
_TAG = re.compile(rf"<(?!{_HARMLESS})|&(?=(?:lt|amp);)")
_ESCAPE = re.compile(r"&(lt|amp);")
_ESCAPES = {"<": "&lt;", "&": "&amp;"}
_CHARACTERS = {"lt": "<", "amp": "&"}

# The name of a tag of its own: no character that ends a tag, breaks a line or quotes.
_NAME = re.compile(r"""[^\s<>&"'=/!?\x00-\x1f\x7f][^<>&"'=\x00-\x1f\x7f\x85\u2028\u2029]*""")
_TAKEN = frozenset(
    {"block", "description", "directories", "memory", "memory_blocks", "memory_metadata",
     "metadata", "system", "value", "warning"}
)  # fmt: skip


def escape_tags(text: str) -> str:
    """The text with every tag in it escaped; `unescape_tags` gives the text back."""
    return _TAG.sub(lambda found: _ESCAPES[found[0]], text)


def unescape_tags(text: str) -> str:
    """The text that `escape_tags` was given."""
    return _ESCAPE.sub(lambda found: _CHARACTERS[found[1]], text)


def tags(label: str) -> tuple[str, str]:
    """The opening and closing tag of a block: named by its label where that is a valid name."""
    first = label.split()[0].casefold() if label.split() else ""
    if _NAME.fullmatch(label) and first not in _TAKEN:
        return f"<{label}>", f"</{label}>"
    return f'<block label="{quote_label(label)}">', "</block>"


def quote_label(label: str) -> str:
    """The label as the value of an attribute, on one line."""
    return re.sub(r"""[<>&"'\x00-\x1f\x7f\x85\u2028\u2029]""", lambda c: f"&#{ord(c[0])};", label)


def unquote_label(label: str) -> str:
    """The label that `quote_label` was given."""
    return re.sub(r"&#(\d{1,4});", lambda found: chr(int(found[1])), label)
