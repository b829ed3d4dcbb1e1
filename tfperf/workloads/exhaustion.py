"""Errors that say that memory was short, told from others."""

from errno import ENOMEM

from tfperf.errors import UserError

WORDS = ("OOM when allocating", "bad_alloc", "MemoryError", "out of memory", "Out of memory", "OUT_OF_MEMORY")
LENGTH = 500  # characters that are kept of what an error says


def find_exhaustion(error: BaseException | None) -> str | None:
    """What an error, or one that it came from, says of memory that was short; None where none does.

    >>> find_exhaustion(MemoryError("no room")), find_exhaustion(ValueError("out of memory"))
    ('MemoryError: no room', None)
    """
    while error is not None:
        if _is_exhausted(error):
            lines = [line.strip() for line in f"{type(error).__name__}: {error}".splitlines()]
            return next((line for line in lines[1:] if _has_words(line)), lines[0])[:LENGTH].rstrip(": ")
        error = error.__cause__
    return None


def _is_exhausted(error: BaseException) -> bool:
    """By its type; of TensorFlow's other errors, by what it says: the words may stand in a text of the user's, too."""
    kind = type(error)
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == ENOMEM):
        return True
    if isinstance(error, UserError) or not kind.__module__.startswith("tensorflow"):
        return False
    return "ResourceExhausted" in kind.__name__ or _has_words(str(error))


def _has_words(text: str) -> bool:
    return any(word in text for word in WORDS)
