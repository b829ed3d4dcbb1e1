"""From JPEG files to batches by tf.data, each stage with a name, written plainly or in any of the usual faster ways."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import tensorflow as tf

from tfperf.zoo.photos_waiting import Wait

DctMethod = Literal["", "INTEGER_FAST", "INTEGER_ACCURATE"]
DRAWS = 8  # random numbers that a picture takes: four for its window, one for each change
AREA, ASPECT = (0.3, 1.0), 4 / 3  # share of the picture that a window has; its longer side over its shorter one at most
BRIGHTNESS, CONTRAST, SATURATION = 0.2, (0.7, 1.3), (0.6, 1.4)
BESIDE = 2  # pixels beside a window that its colours are made from
GREY = (0.299, 0.587, 0.114)  # weights of red, green and blue, ITU-R BT.601


@dataclass(frozen=True)
class PipelineForm:
    """How a pipeline is written. Batches are the same bit for bit in all forms but where it is said.

    parallel_calls: of each map, 1: one after the other, -1: as tf.data's AUTOTUNE chooses; fused: decode alone what the
    window shows; fancy_upscaling: JPEG's colours, which have a lower resolution, are made finer from those beside them,
    to other values; dct_method: TensorFlow's, "" for its own choice, INTEGER_FAST decodes to other values; batch_first:
    change colours of whole batches; ordered: False gives batches as they get ready; prefetch: batches, -1 AUTOTUNE, 0
    none of its own; threads: of a pool of its own, 0 shares TensorFlow's; prepared: resize whole pictures to so many
    pixels a side before anything is drawn, which gives other values and elements that can be stored, 0 not; excludes
    `fused`.
    """

    parallel_calls: int = 1
    fused: bool = False
    fancy_upscaling: bool = True
    dct_method: DctMethod = ""
    batch_first: bool = False
    ordered: bool = True
    prefetch: int = 0
    threads: int = 0
    prepared: int = 0


def make_pipeline(
    paths: list[str], labels: list[int], size: int, batch: int, seed: int | None, wait: Wait | None, form: PipelineForm
) -> tf.data.Dataset:
    """Batches of pictures (batch, size, size, 3), 0 to 1, and class numbers (batch).

    seed: of the order, the windows and the colours, new ones in each pass; None: in the order of the files, the largest
    square in the middle, colours as they are. wait: what reading a file takes more than it does.
    """
    calls = None if form.parallel_calls == 1 else form.parallel_calls
    augments = seed is not None
    reading = _list_reading(form, wait)
    files = tf.data.Dataset.from_tensor_slices((tf.constant(paths), tf.constant(labels, tf.int32)), name="files")
    if augments:
        files = files.shuffle(len(paths), seed=seed, name="shuffle")
    for function, name in reading if form.prepared else ():
        files = files.map(partial(_apply_before_draws, function), calls, name=name)
    pictures = _add_draws(files, seed)

    def apply(function: Any, name: str) -> None:
        """The next stage: of a picture and its draws."""
        nonlocal pictures
        pictures = pictures.map(lambda x, y, draws: (function(x, draws), y, draws), calls, name=name)

    for function, name in () if form.prepared else reading:
        apply(function, name)
    if not form.fused:
        apply(_cut_window, "crop")
    apply(lambda picture, _: tf.image.resize(picture, (size, size)) / 255, "resize")
    if form.batch_first:
        pictures = pictures.batch(batch, name="batch")
    if augments:
        apply(change_picture, "augment")
    pictures = pictures.map(lambda x, y, _: (x, y), name="give")
    if not form.batch_first:
        pictures = pictures.batch(batch, name="batch")
    if form.prefetch:
        pictures = pictures.prefetch(form.prefetch, name="prefetch")
    return pictures.with_options(_make_options(form))


def _add_draws(files: tf.data.Dataset, seed: int | None) -> tf.data.Dataset:
    if seed is None:
        return files.map(lambda path, label: (path, label, tf.zeros(0)), name="draw")
    seeds = tf.data.Dataset.random(seed, rerandomize_each_iteration=True, name="seeds").batch(2, name="seeds")
    return tf.data.Dataset.zip((files, seeds), name="files").map(_draw, name="draw")


def _list_reading(form: PipelineForm, wait: Wait | None) -> list[tuple[Any, str]]:
    """Functions of a file's path and the draws, each of what the one before it gave, with the names of their stages."""
    how = {"dct_method": form.dct_method, "fancy_upscaling": form.fancy_upscaling}

    def decode(jpeg: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
        return tf.io.decode_jpeg(jpeg, 3, **how)

    def prepare(jpeg: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
        """(prepared, prepared, 3), uint8: the whole picture, its sides no longer in their proportion."""
        picture = tf.image.resize(decode(jpeg, draws), (form.prepared, form.prepared))
        return tf.cast(tf.round(picture), tf.uint8)

    def decode_window(jpeg: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
        return _decode_window(jpeg, draws, how)

    last = (prepare, "prepare") if form.prepared else (decode_window if form.fused else decode, "decode")
    waits = [] if wait is None else [(wait.pass_on, "wait")]
    return [(lambda path, _: tf.io.read_file(path), "read"), *waits, last]


def _apply_before_draws(function: Any, x: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return function(x, tf.zeros(0)), label


def _make_options(form: PipelineForm) -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = form.ordered
    if form.threads:
        options.threading.private_threadpool_size = form.threads
    return options


def _draw(file: tuple[tf.Tensor, tf.Tensor], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """All random numbers of a picture, so that stages need no state, and any form of the pipeline has the same ones."""
    return *file, tf.random.stateless_uniform((DRAWS,), seed)


def _find_window(shape: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """(4): top, left, height, width in pixels; shape: height and width of the picture; no draws: the middle square."""
    whole = tf.cast(shape[:2], tf.float32)
    if draws.shape[0] == 0:
        side = tf.fill((2,), tf.reduce_min(whole))
        return tf.cast(tf.concat(((whole - side) // 2, side), 0), tf.int32)
    area = (AREA[0] + draws[0] * (AREA[1] - AREA[0])) * tf.reduce_prod(whole)
    aspect = tf.pow(ASPECT, 2 * draws[1] - 1)
    side = tf.minimum(tf.round(tf.sqrt(tf.stack((area / aspect, area * aspect)))), whole)
    place = tf.floor(draws[2:4] * (whole - side))
    return tf.cast(tf.concat((place, side), 0), tf.int32)


def _decode_window(jpeg: tf.Tensor, draws: tf.Tensor, how: dict[str, Any]) -> tf.Tensor:
    """Some columns more, so that the outermost of the window have the same ones beside them as in the whole picture."""
    shape = tf.io.extract_jpeg_shape(jpeg)
    top, left, height, width = tf.unstack(_find_window(shape, draws))
    begin, end = tf.maximum(left - BESIDE, 0), tf.minimum(left + width + BESIDE, shape[1])
    picture = tf.io.decode_and_crop_jpeg(jpeg, tf.stack((top, begin, height, end - begin)), 3, **how)
    return picture[:, left - begin : left - begin + width]


def _cut_window(picture: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    top, left, height, width = tf.unstack(_find_window(tf.shape(picture), draws))
    return picture[top : top + height, left : left + width]


def change_picture(picture: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """Mirrored or not, and recoloured; a picture (H, W, 3) with its draws (DRAWS), or a batch of both. In 0 to 1."""
    drawn = tf.reshape(draws, (*(-1 if axis is None else axis for axis in draws.shape[:-1]), 1, 1, 1, DRAWS))
    mirror, bright, contrast, colour = tf.unstack(drawn[..., 4:], axis=-1)
    picture = tf.where(mirror < 0.5, picture, tf.reverse(picture, (-2,)))
    # no sums of three, which TensorFlow's optimiser puts in another order for a batch than for a picture
    grey = tf.reduce_sum(picture * GREY, -1, keepdims=True)
    picture = grey + (picture - grey) * _scale(colour, *SATURATION)
    around = 0.5 + _scale(bright, -BRIGHTNESS, BRIGHTNESS)
    picture = around + (picture - 0.5) * _scale(contrast, *CONTRAST)
    return tf.clip_by_value(picture, 0, 1)


def _scale(draw: tf.Tensor, low: float, high: float) -> tf.Tensor:
    return low + draw * (high - low)
