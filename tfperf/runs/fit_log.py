"""What run.log has of a fit of any workload: how it begins, how long its stages take, how it ends."""

import logging
import platform
from collections.abc import Callable
from signal import SIGINT
from typing import Any

from tfperf.errors import AMISS, DONE, SIGNALLED, Interrupted, UserError
from tfperf.version import VERSION
from tfperf.workloads.job import FinishedFit, Session

LOGGER = logging.getLogger(__name__)


def log_fit(session: Session[Any], workload: str, fit: Callable[[], FinishedFit]) -> FinishedFit:
    """Carry out a fit, and log the versions, the options, what ended it, the seconds of its stages, the exit code."""
    versions, asked = f"tfperf {VERSION}, Python {platform.python_version()}", session.options.describe()
    LOGGER.info("begin: %s: fit of workload %s in %s%s", versions, workload, session.run.path, asked)
    try:
        finished = fit()
        code = finished.exit_code
        return finished
    except Interrupted as stop:
        code = stop.exit_code
        LOGGER.warning("%s", stop)
        raise
    except BaseException as error:
        code = _find_exit_code(error)
        kind = "error that the user can mend" if isinstance(error, UserError) else "unexpected error"
        LOGGER.exception("ended by an %s", kind)
        raise
    finally:
        seconds = session.watch.sum_seconds().items()
        LOGGER.info("seconds: %s", ", ".join(f"{stage} {spent:.3f}" for stage, spent in seconds))
        LOGGER.info("end: exit code %d", code)


def _find_exit_code(error: BaseException) -> int:
    """What the program ends with where nobody catches the error."""
    match error:
        case UserError():
            return error.exit_code
        case KeyboardInterrupt():
            return SIGNALLED + SIGINT
        case SystemExit(code=int() | None as code):
            return code or DONE
    return AMISS
