"""Inline markup of reStructuredText: removed, so that only words remain; what roles mark are things with a label."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Span = tuple[int, int]
LABELS = {
    "class": "CLASS", "exc": "EXCEPTION", "func": "FUNCTION", "meth": "FUNCTION", "attr": "ATTRIBUTE",
    "data": "ATTRIBUTE", "const": "ATTRIBUTE", "setting": "SETTING", "confval": "SETTING", "mod": "MODULE",
    "djadmin": "COMMAND", "program": "COMMAND", "command": "COMMAND",
}  # fmt: skip
# roles whose text is shown as it is written; that of a title is shown by all
PLAIN = frozenset((
    "file", "term", "code", "code-py", "kbd", "samp", "envvar", "signal", "sig", "dfn", "abbr", "lookup", "ttag",
    "tfilter", "dir", "role", "dudir", "mimetype", "keyword", "token", "state", "stat", "reqmeta", "hook", "fixture",
    "pypi", "type",
))  # fmt: skip
MARKUP = re.compile(
    r":(?P<role>[\w:+.-]+):`(?P<marked>[^`]+)`"
    r"|``(?P<literal>.+?)``(?!`)"
    r"|`(?P<link>[^`]+)`(?P<tail>_{0,2})"
    r"|\[[\w#*]+\]_(?!\w)|(?<!\w)\|(?P<substitute>[^|\s][^|]*)\|_{0,2}"
    r"|\*\*(?P<strong>[^*\s][^*]*)\*\*|(?<![\w*])\*(?P<emphasis>[^*\s][^*]*)\*(?![\w*])"
    r"|(?<!\w)(?P<word>[A-Za-z]\w*[A-Za-z0-9])__?(?![\w`])"
    r"|\\(?P<escaped>.?)"
)
TITLE = re.compile(r"(?P<title>.*\S)\s*<(?P<target>[^<>]+)>$", re.DOTALL)
NAME = re.compile(r"[A-Za-z_]\w*(?:[.-]\w+)*")
COMMAND = re.compile(rf"{NAME.pattern}(?: {NAME.pattern}){{0,3}}")
BRACKETS = re.compile(r"(?<=\w)\(\)")


@dataclass(frozen=True)
class Paragraph:
    """Plain text; where each thing with a label is; where other names are; places where something is not understood."""

    text: str
    marked: Sequence[tuple[Span, str]]
    named: Sequence[Span]
    doubts: Sequence[int]

    def label_words(self, words: Sequence[Span]) -> list[str] | None:
        """For each word CLASS where one begins, CLASS+ where it goes on, else empty; None where one ends in a word."""
        labels = [""] * len(words)
        for (start, end), label in self.marked:
            if not words or end <= words[0][0] or start >= words[-1][1]:
                continue
            inside = [n for n, (first, last) in enumerate(words) if first < end and last > start]
            if words[inside[0]][0] != start or words[inside[-1]][1] != end:
                return None
            for number in inside:
                labels[number] = label if number == inside[0] else f"{label}+"
        return labels


@dataclass(frozen=True)
class _Piece:
    """Text without markup; label: of what it names; is_name: of no kind that is known; in_doubt: its sentence goes."""

    text: str
    label: str = ""
    is_name: bool = False
    in_doubt: bool = False


def read_markup(source: str) -> Paragraph:
    """A paragraph without its markup.

    Nothing but words tells a thing that is marked from the others: brackets behind names go everywhere, quotes around
    literals, and paths before names only where Sphinx does not show them.
    """
    text, marked, named, doubts = "", list[tuple[Span, str]](), list[Span](), list[int]()
    for piece in _split(source):
        span = len(text), len(text) + len(piece.text)
        if piece.label:
            marked.append((span, piece.label))
        if piece.is_name:
            named.append(span)
        if piece.in_doubt:
            doubts.append(len(text))
        text += piece.text
    return Paragraph(text, marked, named, doubts)


def _split(source: str) -> Iterator[_Piece]:
    place = 0
    for found in MARKUP.finditer(source):
        yield _Piece(BRACKETS.sub("", source[place : found.start()]))
        yield _read(found)
        place = found.end()
    yield _Piece(BRACKETS.sub("", source[place:]))


def _read(found: re.Match[str]) -> _Piece:
    if found["role"]:
        return _read_role(found["role"].rpartition(":")[2], found["marked"])
    if found["literal"]:
        return _read_name(found["literal"])
    if found["link"]:
        title = TITLE.match(found["link"])
        if found["tail"]:
            return _Piece(title["title"] if title else found["link"])
        return _read_name(found["link"])
    if found["substitute"]:
        return _Piece("", in_doubt=True)
    return _Piece(found["strong"] or found["emphasis"] or found["word"] or (found["escaped"] or "").strip())


def _read_role(role: str, marked: str) -> _Piece:
    title = TITLE.match(marked)
    if role in ("pep", "rfc") and not title:
        return _Piece(f"{role.upper()} {marked}")
    if role in LABELS:
        return _read_thing(LABELS[role], marked, title)
    if title:
        return _Piece(BRACKETS.sub("", title["title"]))
    return _read_name(marked) if role in PLAIN else _Piece("", in_doubt=True)


def _read_thing(label: str, marked: str, title: re.Match[str] | None) -> _Piece:
    """A title counts as a name where it is the end of its target; else it is prose about it."""
    text = _strip(title["title"] if title else marked)
    if title and not f".{_strip(title['target'])}".endswith(f".{text}"):
        return _Piece(text, in_doubt=bool(NAME.fullmatch(text)))
    if not title and marked.startswith("~"):
        text = text.rpartition(".")[2]
    whole = COMMAND if label == "COMMAND" else NAME
    return _Piece(text, label) if whole.fullmatch(text) else _Piece(text, in_doubt=True)


def _read_name(literal: str) -> _Piece:
    """What else stands between marks: a name, or words, as they are; code puts its sentence in doubt."""
    text = _strip(literal)
    return _Piece(text, is_name=True, in_doubt=not COMMAND.fullmatch(text))


def _strip(text: str) -> str:
    """Without quotes, brackets of a call, and signs of Sphinx before a name."""
    bare = " ".join(text.split()).strip("'\"")
    return bare.removesuffix("()").lstrip("~!").lstrip(".")
