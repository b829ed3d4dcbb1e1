"""`python -m tfperf.zoo.photos`: a folder of several thousand JPEGs, made from photographs that packages ship."""

import re
import time
from pathlib import Path

import click
from rich.table import Table

from tfperf.console.screen import show
from tfperf.console.stages import open_stages
from tfperf.errors import UserError
from tfperf.zoo.command_line import run_command
from tfperf.zoo.photos_folder import LEAST, PhotoSettings, describe_photos, make_photos
from tfperf.zoo.photos_sources import CLASSES

DEFAULT = PhotoSettings()
SIDES = (64, 4000)  # pixels, least and most


def main() -> None:
    """Carry out the command line."""
    run_command(make_folder_of_photos, "tfperf.zoo.photos", "the same command goes on where it was")


def read_size(text: str) -> tuple[int, int]:
    """Smallest and largest side, in pixels. Raises: UserError.

    >>> read_size("400-640"), read_size("512")
    ((400, 640), (512, 512))
    """
    found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text)
    small, large = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not SIDES[0] <= small <= large <= SIDES[1]:
        raise UserError(
            f"--size: got {text}; must be SMALLEST-LARGEST side in pixels, {SIDES[0]} to {SIDES[1]}: 400-640"
        )
    return small, large


@click.command("make", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--count", type=click.IntRange(LEAST, 50_000 * LEAST), default=DEFAULT.count,
              show_default=True, help="Pictures, of all classes together.")  # fmt: skip
@click.option("--size", default=f"{DEFAULT.smallest}-{DEFAULT.largest}", show_default=True,
              help="Smallest and largest side in pixels.")  # fmt: skip
@click.option("--held", type=click.FloatRange(0.01, 0.9), default=DEFAULT.held_share, show_default=True,
              help="Share of each class that is held out.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**31), default=DEFAULT.seed, show_default=True,
              help="Of all draws: the same seed gives the same pictures.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the figures.")
def make_folder_of_photos(folder: Path, count: int, size: str, held: float, seed: int, quiet: bool) -> None:
    """Make FOLDER/train/CLASS/*.jpg and FOLDER/held/CLASS/*.jpg, each a part of a photograph, turned and recoloured.

    The photographs are those that scikit-image and scikit-learn ship; FOLDER/CREDITS.txt names their authors and
    licences. Stopped, also by a kill, the same command goes on.
    """
    start = time.perf_counter()
    smallest, largest = read_size(size)
    with open_stages(quiet) as stages:
        made = make_photos(folder, PhotoSettings(count, smallest, largest, held, seed), stages.show_stage)
    show(make_table(folder, made, time.perf_counter() - start))


def make_table(folder: Path, made: int, seconds: float) -> Table:
    """What there is, and what was made now."""
    found = describe_photos(folder)
    total = found["train"] + found["held"]
    table = Table("figure", "value", show_header=False, box=None)
    rows = {
        "pictures": f"{total} of {len(CLASSES)} classes: {found['train']} to train on, {found['held']} held out",
        "bytes": f"{found['bytes'] / 1e6:.1f} MB, {found['bytes'] / total / 1e3:.1f} kB a picture",
        "made now": f"{made} in {seconds:.1f} s",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table
