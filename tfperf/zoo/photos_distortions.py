"""Pictures as from a camera, made from one photograph: a part of it, turned, scaled, recoloured, blurred, noisy."""

import math
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

RECIPE = 1  # goes up with each change of what follows: the same seed then gives other pictures
LARGEST_TURN = math.radians(25)
SHARES = (0.35, 1.0)  # of the largest part that fits into the photograph
GAINS = 0.12  # standard deviation of the logarithm, of each colour
BRIGHTNESS, SATURATION = (0.6, 1.35), (0.3, 1.3)
BLUR = (-1.5, 1.2)  # radius in pixels; below 0, which more than half are, a picture is sharp
NOISE, QUALITY = (0.5, 5.0), (70, 88)  # standard deviation of 8 bits; of JPEG
GREY = np.array([0.299, 0.587, 0.114])  # weights of red, green and blue, ITU-R BT.601


class PhotoCrop(NamedTuple):
    """A part of a photograph: its centre and size in pixels, and its turn in radians."""

    x: float
    y: float
    width: float
    height: float
    turn: float

    def to_affine(self, size: tuple[int, int]) -> tuple[float, ...]:
        """(a, b, c, d, e, f): the pixel (x, y) of a picture of that size is (ax + by + c, dx + ey + f) of the photo."""
        across, down = self.width / size[0], self.height / size[1]
        cos, sin = math.cos(self.turn), math.sin(self.turn)
        a, b, d, e = across * cos, -down * sin, across * sin, down * cos
        return a, b, self.x - (a * size[0] + b * size[1]) / 2, d, e, self.y - (d * size[0] + e * size[1]) / 2


def draw_crop(random: np.random.Generator, photo: tuple[int, int], size: tuple[int, int]) -> PhotoCrop:
    """A part of the photograph with the shape of the picture, wholly inside; sizes: width and height in pixels."""
    turn = random.uniform(-LARGEST_TURN, LARGEST_TURN)
    cos, sin = abs(math.cos(turn)), abs(math.sin(turn))
    around = (size[0] * cos + size[1] * sin, size[0] * sin + size[1] * cos)  # the box around the turned picture
    scale = random.uniform(*SHARES) * min(photo[0] / around[0], photo[1] / around[1])
    x, y = (random.uniform(scale * box / 2, whole - scale * box / 2) for box, whole in zip(around, photo, strict=True))
    return PhotoCrop(x, y, scale * size[0], scale * size[1], turn)


def draw_colours(random: np.random.Generator) -> tuple[float, ...]:
    """A matrix (3, 4), row by row, from colours to colours: brightness, saturation and a gain of each colour."""
    gains = np.exp(random.normal(0, GAINS, 3)) * random.uniform(*BRIGHTNESS)
    saturation = random.uniform(*SATURATION)
    mixed = saturation * np.eye(3) + (1 - saturation) * GREY
    return tuple(float(value) for row in gains[:, None] * mixed for value in (*row, 0.0))


def make_picture(photo: "Image", size: tuple[int, int], random: np.random.Generator) -> bytes:
    """A JPEG of that width and height; photo: in colour. All draws are made here, in this order."""
    from PIL import Image, ImageFilter

    crop = draw_crop(random, photo.size, size)
    picture = photo.transform(size, Image.Transform.AFFINE, crop.to_affine(size), Image.Resampling.BILINEAR)
    if (radius := random.uniform(*BLUR)) > 0:
        picture = picture.filter(ImageFilter.GaussianBlur(radius))
    picture = picture.convert("RGB", draw_colours(random))
    noise = random.standard_normal((size[1], size[0]), np.float32) * np.float32(random.uniform(*NOISE))
    noisy = np.asarray(picture).astype(np.int16) + np.rint(noise).astype(np.int16)[..., None]
    file = BytesIO()
    quality = int(random.integers(QUALITY[0], QUALITY[1], endpoint=True))
    Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(file, "JPEG", quality=quality)
    return file.getvalue()
