"""TensorBoard on a run or a log directory, on this machine alone."""

import importlib.util
import signal
from pathlib import Path
from threading import Event

from tfperf.errors import UserError
from tfperf.measure.quiet import native_logs_dropped
from tfperf.results.contents import EVENTS

PLUGIN = "tensorboard_plugin_profile"
OFFLINE = "without a network its trace viewer works; charts of other tools there come from the net and stay blank"


def log_directory(path: Path) -> Path:
    """Where the events of a run, or of a log directory, are. Raises: UserError where there are none."""
    try:
        folder = path / EVENTS if (path / EVENTS).is_dir() else path
        if not path.is_dir():
            raise UserError(f"{path}: no such directory")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    if not any(folder.rglob("*tfevents*")) and not any(folder.rglob("*.xplane.pb")):
        raise UserError(f"{path}: holds no TensorBoard events and no profile")
    return folder


def about_profiles(folder: Path) -> list[str]:
    """What a user should know of the profiles in a log directory; nothing where it holds none."""
    if not any(folder.rglob("*.xplane.pb")):
        return []
    if importlib.util.find_spec(PLUGIN) is None:
        return ["the profile tab is not there: it comes with `pip install tfperf[profile]`"]
    return [f"profile tab: {OFFLINE}"]


def start(folder: Path, port: int) -> str:
    """Start TensorBoard's server in this process; returns its address. Raises: UserError where the port is taken."""
    from tensorboard import program  # type: ignore[import-untyped]

    board = program.TensorBoard()
    where = ["--logdir", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    board.configure(argv=["tensorboard", *where, "--load_fast=false"])
    try:
        with native_logs_dropped():  # the profile plugin loads TensorFlow
            return str(board.launch())
    except program.TensorBoardServerException as error:
        raise UserError(f"--port {port}: {error}") from None


def wait() -> None:
    """Until a signal ends the process."""
    ended = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(1.0):  # a wait without limit would hold signals back
        pass
