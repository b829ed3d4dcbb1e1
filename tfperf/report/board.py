"""TensorBoard on a run or a log directory, on this machine alone."""

import importlib.util
import ipaddress
import re
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import Any

from tfperf.errors import UserError
from tfperf.measure.quiet import drop_native_logs
from tfperf.results.contents import EVENTS
from tfperf.signals import NUMBERS

PLUGIN = "tensorboard_plugin_profile"
OFFLINE = "without a network its trace viewer works; charts of other tools there come from the net and stay blank"

# a name or an address, in brackets where it has colons, and perhaps a port; an origin has the scheme before it
HOST = re.compile(r"(?:\[(?P<address>[0-9a-fA-F:.]+)\]|(?P<name>[^\s:@/\[\],]+))(?::\d{1,5})?")
ORIGIN = re.compile(rf"https?://{HOST.pattern}")
REFUSED = (
    "Refused: this TensorBoard answers to localhost, 127.0.0.1 and [::1] alone, and the request came by another name "
    "or from another site's page. From another machine, come through a tunnel: ssh -L PORT:127.0.0.1:PORT HOST\n"
)
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def find_log_directory(path: Path) -> Path:
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


def describe_profiles(folder: Path) -> list[str]:
    """What a user should know of the profiles in a log directory; nothing where it holds none."""
    if not any(folder.rglob("*.xplane.pb")):
        return []
    if importlib.util.find_spec(PLUGIN) is None:
        return ["the profile tab is not there: it comes with `pip install tfperf[profile]`"]
    return [f"profile tab: {OFFLINE}"]


def start_server(folder: Path, port: int) -> str:
    """Start TensorBoard's server in this process; returns its address. Raises: UserError where the port is taken."""
    from tensorboard import program  # type: ignore[import-untyped]

    def make_server(application: Application, flags: object) -> object:
        return program.create_port_scanning_werkzeug_server(restrict_to_loopback(application), flags)

    board = program.TensorBoard(server_class=make_server)
    where = ["--logdir", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    board.configure(argv=["tensorboard", *where, "--load_fast=false"])
    try:
        with drop_native_logs():  # the profile plugin loads TensorFlow
            return str(board.launch())
    except program.TensorBoardServerException as error:
        raise UserError(f"--port {port}: {error}") from None


def restrict_to_loopback(application: Application) -> Application:
    """The WSGI application, with 403 for requests to any name but this machine's own, or from another site's page.

    A page of the net can have its name lead to 127.0.0.1 (DNS rebinding) and would read the events as its own; its
    requests still carry its name. A request without Host is refused as well.
    """

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        origin = environ.get("HTTP_ORIGIN")
        # HTTP_HOST as the client sent it: where there is none, others would put the server's own name
        host = HOST.fullmatch(environ.get("HTTP_HOST", ""))
        if is_loopback(host) and (origin is None or is_loopback(ORIGIN.fullmatch(origin))):
            return application(environ, start_response)
        content = REFUSED.encode()
        start_response("403 Forbidden", [("Content-Type", "text/plain"), ("Content-Length", str(len(content)))])
        return [content]

    return answer


def is_loopback(found: re.Match[str] | None) -> bool:
    """Whether a match of HOST or ORIGIN names this machine: localhost, 127.0.0.0/8 or ::1."""
    name = found and (found["address"] or found["name"])
    if not name or name.lower() == "localhost":
        return bool(name)
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def wait_for_signal() -> None:
    """Until a signal ends the process."""
    ended = Event()
    for number in NUMBERS:
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(1.0):  # a wait without limit would hold signals back
        pass
