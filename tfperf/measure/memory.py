"""Memory that nobody needs any more, given back to the system."""

import ctypes
import gc
from contextlib import suppress


def release_memory() -> None:
    """Free what only cycles of objects hold, and hand the free parts of the heap back, where the C library can.

    After a fit hundreds of megabytes are free inside glibc's heap: without this they would count as the process's.
    """
    gc.collect()
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
