"""Characters of names that come from packs, cards and profiles: those that are not to be obeyed are written out."""

import re

# control characters but tab and new line, marks that turn the direction of text, other line ends, half characters
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text with `\x1b` for an escape, `\u202e` for a mark that turns what follows, `\udcff` for half a letter."""
    return COMMANDS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)
