"""Errors of the user's own code, told from his first line on."""

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tfperf.errors import Interrupted, UserCodeError, UserError
from tfperf.sources.modules import is_of_library

COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # that Keras' messages have
FRAME = re.compile(r'^(?P<indent>\s*)File "(?P<file>[^"]+)", line (?P<line>\d+)')  # of a traceback inside a message
MOST_FRAMES = 40  # that are told of a traceback: of deeper ones the ends
EMPTY = ("training=False", "mask=None", "kwargs=<class 'inspect._empty'>")  # arguments that Keras lists and nobody gave


def run_user_code(call: Callable[[], Any], what: str, file: Path | None) -> Any:
    """What a call of the user's code returns. Raises: UserCodeError with his traceback, from his file on."""
    try:
        return call()
    except (KeyboardInterrupt, Interrupted, UserError):
        raise
    except BaseException as error:
        own, frames = _find_own(error, file)
        message = [line for line in _split(traceback.format_exception_only(own)) if line.lstrip(" •") not in EMPTY]
        told = frames if len(frames) <= MOST_FRAMES else [*frames[: MOST_FRAMES // 2], *frames[-MOST_FRAMES // 2 :]]
        lines = [*_split(traceback.format_list(told)), *_drop_libraries(message)]
        if own.__cause__ is not None and own.__cause__ is not error:
            lines += [f"raised from {line}" for line in _split(traceback.format_exception_only(own.__cause__))[:1]]
        raise UserCodeError(f"{what}: raised {type(own).__name__}", *lines) from error


def _find_own(error: BaseException, file: Path | None) -> tuple[BaseException, Sequence[traceback.FrameSummary]]:
    """The error with its frames from the user's file on, or from his first code; without frames where it reaches none.

    Keras puts errors of its own in the place of some: those that they came from are looked through, too.
    """
    for one in _list_causes(error):
        frames = traceback.extract_tb(one.__traceback__)
        mine = [number for number, frame in enumerate(frames) if file is not None and frame.filename == str(file)]
        mine = mine or [number for number, frame in enumerate(frames) if not is_of_library(frame.filename)]
        if mine:
            return one, frames[mine[0] :]
    return error, ()


def _split(texts: Sequence[str]) -> list[str]:
    lines = [COLOURS.sub("", line).rstrip() for text in texts for line in text.splitlines()]
    return [line for line in lines if line]


def find_place(error: BaseException) -> str:
    """File and line of the user's that raised an error, perhaps in another process; else the last one of all."""
    frames = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    for text in (str(error), str(error.__cause__ or "")):  # a process tells its traceback as a text
        frames += [(found["file"], int(found["line"])) for found in map(FRAME.match, text.splitlines()) if found]
    mine = [frame for frame in frames if not is_of_library(frame[0])]
    file, line = (mine or frames)[-1]
    return f"{file}, line {line}"


def _list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _drop_libraries(lines: Sequence[str]) -> Iterator[str]:
    """A message, which may hold a traceback of where an operation was made, without the frames of libraries."""
    indent: int | None = None  # of the frame that is dropped, whose source lines stand further in
    for line in lines:
        found = FRAME.match(line)
        if found is not None:
            indent = len(found["indent"]) if is_of_library(found["file"]) else None
        elif indent is not None and len(line) - len(line.lstrip()) <= indent:
            indent = None
        if indent is None:
            yield line
