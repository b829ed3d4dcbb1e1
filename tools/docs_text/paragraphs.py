"""Paragraphs of a document in reStructuredText: prose alone, no titles, tables, fields or code."""

import re
from collections.abc import Iterator

DIRECTIVE = re.compile(r"(\s*)\.\.\s+(?:\|[^|]*\|\s+)?([\w:-]+)::")
COMMENT = re.compile(r"(\s*)\.\.(?:\s|$)")
# those whose content is prose; of all others nothing is read
PROSE = frozenset((
    "note", "warning", "tip", "hint", "important", "caution", "attention", "danger", "seealso", "admonition",
    "versionadded", "versionchanged", "deprecated", "class", "method", "attribute", "function", "exception", "data",
    "setting", "confval", "classmethod", "staticmethod", "decorator", "django-admin", "signal", "fixture", "topic",
    "templatetag", "templatefilter", "fieldlookup", "reqmeta", "option", "describe", "property",
))  # fmt: skip
BULLET = re.compile(r"(\s*)(?:[*+•-]|#\.|\(?\d+[.)]|[a-z]\))\s+(?=\S)")
RULE = re.compile(r"\s*([=\-`:'\"~^_*+#<>.])\1{2,}\s*$")
# fields, doctest, tables, line blocks, anonymous targets
NO_PROSE = re.compile(r"\s*(?::[\w /*-]+:(?:\s|$)|>>>|\+[-=]|\||={3,} +=|__ )")


def read_paragraphs(document: str) -> Iterator[str]:
    """Each paragraph as one line."""
    lines: list[str] = []
    indent = -1
    for line in [*_drop_code(document.expandtabs().splitlines()), ""]:
        bullet = BULLET.match(line)
        own = bullet.end() if bullet else len(line) - len(line.lstrip())
        if lines and (not line.strip() or bullet or own != indent):
            yield from _join(lines)
            lines = []
        if line.strip():
            lines.append(line[own:] if bullet else line.strip())
            indent = own


def _join(lines: list[str]) -> Iterator[str]:
    if not any(NO_PROSE.match(line) or RULE.match(line) for line in lines):
        yield " ".join(lines)


def _drop_code(lines: list[str]) -> Iterator[str]:
    """The lines that may be prose; an empty one in place of what is left out."""
    outer = -1  # indent of what is left out with all below it; -1: nothing is
    for line in lines:
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        if not bare or 0 <= outer < indent:
            yield ""
            continue
        outer = -1
        if found := DIRECTIVE.match(line):
            outer = -1 if found[2].rpartition(":")[2] in PROSE else indent
            yield ""
        elif COMMENT.match(line):
            outer = indent
            yield ""
        else:
            if bare.endswith("::"):  # a block of code follows
                outer, line = indent, line.rstrip()[:-1]
            yield line if line.strip() != ":" else ""
