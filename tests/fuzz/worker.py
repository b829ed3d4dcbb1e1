"""The process that reads damaged files: a crash, a hang or a bomb there fails one case, and harms no other test.

In: a JSON line for each case, the name of a check and its arguments. Out: a JSON line for each, the verdict. A check is
a function that returns where what it read is right, raises a UserError where it is refused, and anything else where it
is wrong.
"""

import importlib
import json
import os
import resource
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

from tfperf.errors import UserError

ADDRESSES = 3 * 10**9  # bytes that a case may ask for beyond what the process has
MESSAGE_BYTES = 64 * 1024  # of a refusal


def sizes() -> dict[str, int]:
    """Bytes of memory of this process, by the names of /proc."""
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {line[0].rstrip(":"): 1024 * int(line[1]) for line in lines if line[0].startswith("Vm")}


def verdict(check, arguments) -> dict:
    """What became of a case: accepted, refused, or wrong and why."""
    try:
        check(*arguments)
    except UserError as error:
        text = str(error)
        lost = memory_ran_out(error)
        if lost or not error.faults or len(text.encode("utf-8", "replace")) > MESSAGE_BYTES:
            return {"is": "wrong", "text": f"refused with {len(text)} characters, out of memory: {lost}: {text[:2000]}"}
        return {"is": "refused", "text": text}
    except Exception:
        return {"is": "wrong", "text": traceback.format_exc()}
    return {"is": "accepted", "text": ""}


def memory_ran_out(error: BaseException | None) -> bool:
    """Whether a refusal only says that a bomb went off: another machine would have taken it."""
    while error is not None:
        if isinstance(error, MemoryError) or "Unable to allocate" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def main() -> None:
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    known = {}
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        if name not in known:
            module, _, function = name.partition(":")
            known[name] = getattr(importlib.import_module(module), function)
            resource.setrlimit(resource.RLIMIT_AS, (sizes()["VmSize"] + ADDRESSES, resource.RLIM_INFINITY))
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before, start = sizes()["VmRSS"], time.process_time()
        found = verdict(known[name], arguments)
        found["seconds"] = time.process_time() - start
        found["bytes"] = sizes()["VmHWM"] - before
        channel.write(json.dumps(found) + "\n")
        channel.flush()


if __name__ == "__main__":
    main()
