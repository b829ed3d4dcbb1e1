"""Which of 13 photographs a JPEG was made from: files, a tf.data pipeline as image training has it, a residual network.

`python -m tfperf.zoo.photos DIR` makes the files (photos_command.py) of photographs that packages ship
(photos_sources.py). photos_waiting.py has data that take a stated time instead.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfperf.console.words import say
from tfperf.errors import UserError
from tfperf.zoo.photos_folder import Part, PhotoSettings, find_default_folder, list_photos, make_photos, read_settings
from tfperf.zoo.photos_sources import CLASSES

if TYPE_CHECKING:  # it takes seconds, and the command says before that it begins
    import keras

    from tfperf.zoo.photos_pipeline import DctMethod

SIZE, TOLD = 96, 4  # pixels; how often it is told how far pictures are


def load_photos(
    folder: str | None = None, part: Part = "train", count: int = 4000, size: int = SIZE, batch: int = 32,
    seed: int = 1, parallel_calls: int = 1, fused: bool = False, fancy_upscaling: bool = True,
    dct_method: "DctMethod" = "", batch_first: bool = False, ordered: bool = True, prefetch: int = 0, threads: int = 0,
    prepared: int = 0, wait_ms: float = 0.0, holds_gil: bool = False, times: str | None = None,
) -> Any:  # fmt: skip
    """Batches as a tf.data.Dataset: pictures (batch, size, size, 3), 0 to 1, and class numbers (batch).

    folder: that `python -m tfperf.zoo.photos` has made, completed where that was stopped; None: one of tfperf's cache,
    made where it is missing, with `count` pictures. part: `train`, in a new order with new windows, mirrored or not,
    and recoloured in each pass; `held`, the middle of the pictures that are not trained on, in their order. seed: of
    all draws. parallel_calls to prepared: see `PipelineForm`. wait_ms: what reading a file takes more, spent in Python,
    with its lock where `holds_gil`; times: the file of `StartTimes` in which that is recorded.

    Stages are named files, shuffle, draw, read, wait, decode, crop, resize, augment, batch, prefetch; with `prepared`
    files, shuffle, read, wait, prepare, draw, crop, resize, augment, batch, prefetch.
    Raises: UserError for another folder, or where the photographs are missing.
    """
    from tfperf.zoo.photos_pipeline import PipelineForm, make_pipeline
    from tfperf.zoo.photos_waiting import StartTimes, Wait

    if prepared and fused:
        raise UserError("fused: got True; must be false with prepared, which decodes whole pictures")
    place = find_photos(folder, count)
    form = PipelineForm(parallel_calls, fused, fancy_upscaling, dct_method, batch_first, ordered, prefetch, threads,
                        prepared)  # fmt: skip
    wait = Wait(wait_ms / 1e3, holds_gil, StartTimes(times)) if wait_ms else None
    return make_pipeline(*list_photos(place, part), size, batch, seed if part == "train" else None, wait, form)


def find_photos(folder: str | None, count: int) -> Path:
    """A folder with all its pictures, those that are missing made now. Raises: UserError as `load_photos`."""
    if folder is not None:
        place = Path(folder)
        settings = read_settings(place)
    else:
        settings = PhotoSettings(count)
        place = find_default_folder(settings)

    def show(stage: str, number: int | None = None, total: int | None = None, /) -> None:
        if number is not None and total is not None and number * TOLD // total > (number - 1) * TOLD // total:
            say(f"{stage} in {place}: {number} of {total}")

    make_photos(place, settings, show)
    return place


def build_model(
    size: int = SIZE, classes: int = len(CLASSES), filters: int = 16, groups: int = 3, dropout: float = 0.2,
    learning_rate: float = 2e-3,
) -> "keras.Model":  # fmt: skip
    """(B, size, size, 3) to probabilities (B, classes).

    filters: of the first of `groups` blocks; each further one has twice as many, for half the height and width.

    Source: He et al. 2016, "Identity mappings in deep residual networks".
    """
    import keras
    from keras import layers

    inputs = keras.Input((size, size, 3))
    seen = layers.Rescaling(4.0, -2.0)(inputs)  # to about 0, with a deviation of about 1
    seen = layers.Conv2D(filters, 3, 2, padding="same", use_bias=False)(seen)
    seen = layers.MaxPooling2D(3, 2, padding="same")(seen)
    for group in range(groups):
        seen = add_block(seen, filters * 2**group, 1 if group == 0 else 2)
    seen = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(seen))
    pooled = layers.Dropout(dropout)(layers.GlobalAveragePooling2D()(seen))
    model = keras.Model(inputs, layers.Dense(classes, "softmax")(pooled))
    model.compile(keras.optimizers.Adam(learning_rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def add_block(seen: "keras.KerasTensor", filters: int, stride: int) -> "keras.KerasTensor":
    """A block of He et al. 2016, figure 4 (e); (B, H, W, C) to (B, H / stride, W / stride, filters)."""
    from keras import layers

    normal = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(seen))
    if stride != 1 or seen.shape[-1] != filters:
        seen = layers.Conv2D(filters, 1, stride, use_bias=False)(normal)
    hidden = layers.Conv2D(filters, 3, stride, padding="same", use_bias=False)(normal)
    hidden = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(hidden))
    return layers.Add()([seen, layers.Conv2D(filters, 3, padding="same", use_bias=False)(hidden)])


if __name__ == "__main__":
    from tfperf.zoo.photos_command import main

    main()
