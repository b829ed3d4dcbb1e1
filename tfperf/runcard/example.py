"""A commented example card: every key with its value, described in the words of the schema."""

import textwrap
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tfperf.runcard.scalars import dump_inline
from tfperf.runcard.schema import Grammar

WIDTH = 118


def format_example(grammar: Grammar[Any], tree: Mapping[str, Any], off: Collection[str]) -> str:
    """The text of a card with a comment for each key; mappings whose keys are in `off` are comments as a whole."""
    lines: list[str] = []
    for key, value in tree.items():
        entry = list(_format_lines(grammar, {key: value}, (), ""))
        lines += ["", *(f"# {line}" for line in entry if line)] if key in off else entry
    return "\n".join(lines) + "\n"


def _format_lines(grammar: Grammar[Any], tree: Mapping[str, Any], path: tuple[str, ...], indent: str) -> Iterator[str]:
    """The lines of a mapping, each key with its description."""
    free = grammar.has_free_keys(path)
    for key, value in tree.items():
        about = grammar.get_schema((*path, key)).get("description", "")
        nested = isinstance(value, dict) and bool(value) and not free
        if nested and not path:
            yield ""
        yield from _comment_line(f"{indent}{key}:{'' if nested else ' ' + dump_inline(value)}", about)
        if nested:
            yield from _format_lines(grammar, value, (*path, key), indent + "  ")


def _comment_line(line: str, about: str) -> Iterator[str]:
    whole = f"{line}  # {about}" if about else line
    if len(whole) <= WIDTH:
        yield whole
    else:
        indent = line[: len(line) - len(line.lstrip())]
        yield from textwrap.wrap(about, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
        yield line
