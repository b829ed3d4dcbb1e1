"""Functions of a program as a card names them, so that a fresh process has them, too."""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle

from tfperf.errors import UserError
from tfperf.results.files import make_folder, write_atomically
from tfperf.sources.code import CodeReference
from tfperf.sources.modules import is_of_library

STUB = '''"""A function of a Python program, kept by value: made anew whenever the program asks for it.

sha256 of what is kept: {digest}
"""

import pathlib
import sys

import cloudpickle

sys.path += {folders!r}
{name} = cloudpickle.loads(pathlib.Path(__file__).with_suffix(".pickle").read_bytes())
'''


def find_module_reference(function: Callable[..., Any], in_packages: bool = True) -> CodeReference | None:
    """A function by the module or file that defines it; None of __main__, and of what has no name of its own.

    in_packages: also where a program's own package has it, which not every process finds.
    """
    name, qualified = getattr(function, "__module__", None), getattr(function, "__qualname__", "<>")
    module = sys.modules.get(str(name))
    if (
        module is None
        or name == "__main__"
        or not qualified.isidentifier()
        or vars(module).get(qualified) is not function
    ):
        return None
    file = getattr(module, "__file__", None)
    if file is not None and not is_of_library(file):
        if not module.__package__:
            return CodeReference(str(Path(file).resolve()), qualified)
        if not in_packages:  # what stands in one imports by its place in it, which a file alone does not have
            return None
    return CodeReference(str(name), qualified)


def name_function(function: Callable[..., Any], folder: Path, key: str) -> CodeReference:
    """A reference by which a fresh process of this Python has the same function; `key`: whose it is, for messages.

    One that only this program has, as those of notebooks, is kept by value in `folder`. Raises: UserError for one that
    holds what cannot be kept, as open files.
    """
    if (found := find_module_reference(function, in_packages=False)) is not None:
        return found
    name = key.replace(".", "_")
    try:
        content = cloudpickle.dumps(function)
    except Exception as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise UserError(f"{key}: cannot be kept for another process ({what}); put it into a file of its own") from None
    make_folder(folder)
    digest = hashlib.sha256(content).hexdigest()  # by which a sweep sees that it is another one
    stub = STUB.format(folders=[path for path in sys.path if path], name=name, digest=digest)
    for file, written in ((f"{name}.pickle", content), (f"{name}.py", stub.encode())):
        with write_atomically(folder / file) as temporary:
            temporary.write_bytes(written)
    return CodeReference(str((folder / f"{name}.py").resolve()), name)
