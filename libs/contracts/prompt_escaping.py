"""Text of users as data in a prompt that is marked up with tags: it can look like no tag.

Only what could be read as a tag is escaped, the way XML does it: `a < b`, `<3` and `R&D` stay as
they are, so that models see, and pass to their tools, what people wrote.
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


def escaped(text: str) -> str:
    """The text such that nothing in it is a tag; `unescaped` gives it back."""
    return _TAG.sub(lambda found: _ESCAPES[found[0]], text)


def unescaped(text: str) -> str:
    """What a text was before it was escaped."""
    return _ESCAPE.sub(lambda found: _CHARACTERS[found[1]], text)


def tags(label: str) -> tuple[str, str]:
    """The tags around what has this label: its own where it is a good name for one."""
    first = label.split()[0].casefold() if label.split() else ""
    if _NAME.fullmatch(label) and first not in _TAKEN:
        return f"<{label}>", f"</{label}>"
    return f'<block label="{quoted(label)}">', "</block>"


def quoted(label: str) -> str:
    """The label as the value of an attribute, on one line."""
    return re.sub(r"""[<>&"'\x00-\x1f\x7f\x85\u2028\u2029]""", lambda c: f"&#{ord(c[0])};", label)


def unquoted(label: str) -> str:
    """What a label was before it was quoted."""
    return re.sub(r"&#(\d{1,4});", lambda found: chr(int(found[1])), label)
