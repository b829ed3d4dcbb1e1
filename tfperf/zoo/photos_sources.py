"""Photographs that packages ship, by whom and under which licence; each is a class of `tfperf.zoo.photos`.

Only files of the packages' wheels are read, never those that scikit-image downloads when they are asked for, and only
those that their package says are in the public domain, CC0 or CC BY. tfperf has no copy of any.
"""

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tfperf.errors import UserError

if TYPE_CHECKING:  # Pillow comes with both packages
    from PIL.Image import Image

DATA = {"scikit-image": ("skimage", "data"), "scikit-learn": ("sklearn", "datasets/images")}  # module, folder in it
CC0, PUBLIC, CC_BY = "CC0 1.0", "public domain", "CC BY 2.0"


@dataclass(frozen=True)
class Photograph:
    """name: of its class; source: where the package has it from."""

    name: str
    package: str
    file: str
    what: str
    author: str
    licence: str
    source: str


PHOTOGRAPHS = (
    Photograph("astronaut", "scikit-image", "astronaut.png", "the astronaut Eileen Collins", "NASA", PUBLIC,
               "https://flic.kr/p/r9qvLn"),
    Photograph("brick", "scikit-image", "brick.png", "a brick wall", "CC0Textures", CC0,
               "https://cc0textures.com/view.php?tex=Bricks25"),
    Photograph("camera", "scikit-image", "camera.png", "a man with a camera", "Lav Varshney", CC0,
               "https://github.com/scikit-image/scikit-image/issues/3927"),
    Photograph("cat", "scikit-image", "chelsea.png", "Chelsea the cat", "Stefan van der Walt", CC0, "its author"),
    Photograph("china", "scikit-learn", "china.jpg", "a palace in China", "danielbuechele", CC_BY,
               "https://www.flickr.com/photos/danielbuechele/6061409035/"),
    Photograph("clock", "scikit-image", "clock_motion.png", "a wall clock, blurred by motion", "Stefan van der Walt",
               PUBLIC, "its author"),
    Photograph("coffee", "scikit-image", "coffee.png", "a cup of coffee", "Rachel Michetti, by courtesy of Pikolo "
               "Espresso Bar", CC0, "its author"),
    Photograph("flower", "scikit-learn", "flower.jpg", "a dahlia", "vultilion", CC_BY,
               "https://www.flickr.com/photos/vultilion/6056698931/"),
    Photograph("grass", "scikit-image", "grass.png", "grass", "linolafett", CC0,
               "https://www.deviantart.com/linolafett/art/Grass-01-434853879"),
    Photograph("gravel", "scikit-image", "gravel.png", "gravel", "CC0Textures", CC0,
               "https://cc0textures.com/view.php?tex=Gravel04"),
    Photograph("retina", "scikit-image", "retina.jpg", "a human retina", "Mikael Häggström", CC0,
               "https://commons.wikimedia.org/wiki/File:Fundus_photograph_of_normal_left_eye.jpg"),
    Photograph("rocket", "scikit-image", "rocket.jpg", "the launch of a Falcon 9", "SpaceX", PUBLIC,
               "https://www.flickr.com/photos/spacexphotos/16511594820/"),
    Photograph("stars", "scikit-image", "hubble_deep_field.jpg", "the Hubble eXtreme Deep Field", "NASA", PUBLIC,
               "http://hubblesite.org/newscenter/archive/releases/2012/37/image/a/"),
)  # fmt: skip
CLASSES = tuple(one.name for one in PHOTOGRAPHS)


def find_photograph(one: Photograph) -> Path:
    """Its file. Raises: UserError with the command that installs the package where it, or the file in it, is missing.

    The package is found, not imported, which takes seconds.
    """
    module, folder = DATA[one.package]
    spec = find_spec(module)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(place, folder, one.file)
        if path.is_file():
            return path
    found = "is not installed" if spec is None else f"has no {folder}/{one.file}"
    raise UserError(f'{one.package} {found}, a photograph that the pictures are made from: pip install ".[zoo]"')


def read_photograph(one: Photograph) -> "Image":
    """In colour, three times 8 bits. Raises: UserError as `find_photograph`, and for a file that is no picture."""
    from PIL import Image

    path = find_photograph(one)
    try:
        with Image.open(path) as picture:
            return picture.convert("RGB")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error}; must be the file that {one.package} ships") from None


def digest_photographs() -> str:
    """sha256 of all files together: other ones give other pictures. Raises: UserError as `find_photograph`."""
    total = hashlib.sha256()
    for one in PHOTOGRAPHS:
        total.update(hashlib.sha256(find_photograph(one).read_bytes()).digest())
    return total.hexdigest()


def format_credits() -> str:
    """A text that goes with the pictures, as CC BY asks for: author, licence, source, and what was changed."""
    rows = (
        f"- {one.name}: {one.what}; {one.author}; {one.licence}; {one.source} (as in {one.package}: {one.file})\n"
        for one in PHOTOGRAPHS
    )
    return (
        "These pictures are cut out of the photographs below, turned, scaled, recoloured, blurred and made noisy by\n"
        "`python -m tfperf.zoo.photos`; a folder's name tells which one a picture is of.\n"
        "CC BY 2.0: https://creativecommons.org/licenses/by/2.0/\n\n" + "".join(rows)
    )
