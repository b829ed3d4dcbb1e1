"""Plain text cut into sentences and words, each by its place: the same for the data, the training and a user's book."""

import re
from collections.abc import Iterator

Span = tuple[int, int]  # first character, and the one after the last
# an apostrophe or hyphen within a word is part of it, but for the s of a possessor; any other mark is a word of its own
WORDS = re.compile(r"\w+(?:-\w+|['’](?!s\b)\w+)*|['’]s\b|[^\w\s]")
# a mark that ends a sentence, brackets and quotes behind it, and what only begins a new one
ENDS = re.compile(r"[.?!][\"')\]’”]*(\s+)(?=[\"'(\[“‘]?[A-Z0-9_])")
ABBREVIATION = re.compile(r"(?:^|[\s(\[])(?:[A-Za-z]|e\.g|i\.e|etc|vs|cf|Mr|Mrs|Ms|Dr|St|No|Fig|approx)\.$")


def split_paragraphs(text: str) -> Iterator[Span]:
    """Paragraphs, which blank lines separate, from their first to their last character that is no blank.

    >>> text = " One\\nline.\\n \\n\\nTwo.\\n"
    >>> [text[start:end] for start, end in split_paragraphs(text)]
    ['One\\nline.', 'Two.']
    """
    start = end = None
    place = 0
    for line in text.splitlines(keepends=True):
        if bare := line.strip():
            first = place + line.index(bare)
            start, end = (first if start is None else start), first + len(bare)
        elif start is not None and end is not None:
            yield start, end
            start = None
        place += len(line)
    if start is not None and end is not None:
        yield start, end


def split_sentences(text: str) -> Iterator[Span]:
    """Sentences of a paragraph, without the blanks between them.

    >>> text = "See e.g. Model.save. It works!"
    >>> [text[start:end] for start, end in split_sentences(text)]
    ['See e.g. Model.save.', 'It works!']
    """
    start = 0
    for end in ENDS.finditer(text):
        if not ABBREVIATION.search(text[start : end.start() + 1]):
            yield start, end.start(1)
            start = end.end(1)
    if text[start:].strip():
        yield start, len(text.rstrip())


def split_words(text: str) -> list[Span]:
    """Words and marks.

    >>> text = "Don't use Model.save's cached-value."
    >>> [text[start:end] for start, end in split_words(text)]
    ["Don't", 'use', 'Model', '.', 'save', "'s", 'cached-value', '.']
    """
    return [found.span() for found in WORDS.finditer(text)]
