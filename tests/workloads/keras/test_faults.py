"""Faults of cards and of users' code: each is told with its place and what to do, and nothing half written is left."""

import re
from pathlib import Path

import pytest

import tfperf
from tests.workloads.keras.running import run

FILES = {
    "card.yaml": '''workload: keras
model: {build: "model.py:build_model"}
data: {build: "data.py:load", batch: 16}
train: {epochs: 2, steps_per_call: 4}
engine: {xla: false}
''',
    "model.py": '''import keras
from keras import layers


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(1)

    def call(self, inputs):
        return self.dense(inputs)


def build_model(units=4):
    model = keras.Sequential([keras.Input((3,)), layers.Dense(units, "relu"), layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def build_net():
    model = Net()
    model.compile("adam", "mse")
    return model
''',
    "data.py": '''import numpy as np
import tensorflow as tf


def load(count=64):
    x = np.linspace(0, 1, 3 * count, dtype="float32").reshape(count, 3)
    return x, x.sum(axis=1, keepdims=True)


def stream(count=64):
    return tf.data.Dataset.from_tensor_slices(load(count)).batch(16)


def give():
    for step in range(12):
        if step == 11:
            raise OSError("disk gone")
        yield load(16)


def make_printer():
    import keras

    return keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: print(logs["mae"]))
''',
    "table.csv": "a,b,y\n1,red,2\n2,blue,4\n",
}  # fmt: skip
NET = ("model.py:build_model", "model.py:build_net")
STREAM = ('"data.py:load", batch: 16', '"data.py:stream"')
MAKE = "return tf.data.Dataset.from_tensor_slices(load(count)).batch(16)"
TARGETS = "x.sum(axis=1, keepdims=True)"
FAULTS = {
    # of the card
    "unknown key": ([("epochs: 2", "epoch: 2")], r"card.yaml:4: train.epoch: unknown key; did you mean `epochs`"),
    "wrong value": ([("epochs: 2", "epochs: two")], r"card.yaml:4: train.epochs: got 'two'; must be a whole number"),
    "no such file": ([("model.py:b", "modell.py:b")], r"card.yaml:2: model.build: got 'modell.py.*no such file"),
    "no such function": ([(NET[0], "model.py:bild_model")], r"card.yaml:2: .*py has no bild_model; its functions: "),
    "wrong argument": ([("build_model\"}", "build_model\", arguments: {unitz: 3}}")], r"it is build_model\(units=4\)"),
    "unknown loss": ([("epochs: 2", "epochs: 2, loss: mean_eror")], r"card.yaml:4: train.loss: got 'mean_eror'"),
    "unknown metric": ([("epochs: 2", "epochs: 2, metrics: [maee]")], r"card.yaml:4: train.metrics.0: got 'maee'"),
    "name of an optimizer alone": (
        [("epochs: 2", "epochs: 2, optimizer: adam")],
        r"card.yaml:4: train.optimizer: got 'adam'; must be a mapping .*did you mean `{name: Adam}`",
    ),
    "unknown argument of an optimizer": (
        [("epochs: 2", "epochs: 2, optimizer: {name: Adam, learningrate: 0.1}")],
        r"card.yaml:4: train.optimizer.learningrate: unknown key; did you mean `learning_rate`",
    ),
    "unknown argument of a callback": (
        [("epochs: 2", "epochs: 2, callbacks: [{name: EarlyStopping, arguments: {patince: 3}}]")],
        r"train.callbacks.0: EarlyStopping: .*'patince'; its arguments: monitor, min_delta, patience",
    ),
    "unknown argument of a schedule": (
        [("epochs: 2", "epochs: 2, learning_rate_schedule: {name: CosineDecay, arguments: {decay: 3}}")],
        r"train.learning_rate_schedule: CosineDecay: .*'decay'; its arguments: initial_learning_rate",
    ),
    "weight of no class": (
        [("epochs: 2", "epochs: 2, class_weight: {0: 1.0, 7: 2.0}"), (TARGETS, "(x[:, 0] > 0.5).astype(int)")],
        r"train.class_weight.7: no training sample is of this class; there are: 0, 1",
    ),
    "class that is no number": (
        [("epochs: 2", "epochs: 2, class_weight: {red: 1.0}")],
        r"card.yaml:4: train.class_weight.red: unknown key; must be a class, counted from 0",
    ),
    "share that leaves nothing": ([("batch: 16", "batch: 16, validation: 0.999")], r"data.validation: got 0.999 of 64"),
    "batch of batches": ([("data.py:load", "data.py:stream")], r"data.batch: got 16; must be left out for a tf.data"),
    "share of a stream": (
        [STREAM, ('stream"', 'stream", validation: 0.2')], r"data.validation: a share cannot be taken of a tf.data",
    ),
    "texts in a table": (
        [('build: "data.py:load"', "file: table.csv")], r"table.csv: column b: has texts, 'red' in row 1; .*data.inp",
    ),
    "not compiled": (
        [('    model.compile("adam", "mse")\n', "")], r"train.loss: missing; .* not compiled; for example loss: mean_sq"
    ),
    # of the code
    "syntax": ([("    return model\n\n", "    return model(\n\n")], r"card.yaml:2: .*model.py, line \d+: "),
    "missing module": (
        [("import keras\nfrom", "import keras\nimport tfperf_made_up\nfrom")],
        r'File ".*model.py", line 2, in <module>\n.*\n.*No module named \'tfperf_made_up\'',
    ),
    "builder that raises": (
        [('layers.Dense(units, "relu")', 'layers.Dense(units, "rel")')],
        r'File ".*model.py", line 15, in build_model\n(.*\n)+.*activation function identifier: rel',
    ),
    "builder that leaves": (
        [("    model = keras.Seq", "    raise SystemExit(3)\n    model = keras.Seq")],
        r"line 15, in build_model\n.*\n.*Exit: 3",
    ),
    "no model": ([("    return model\n", "    return 3\n")], r"model.build: model.py:build_model: returned int; must "),
    "shapes of inputs": ([("Input((3,))", "Input((5,))")], r"data: the input has shape \(16, 3\); .*takes \(None, 5"),
    "single samples": ([STREAM, (".batch(16)", "")], r"data: .*shape \(3,\).*end the dataset by .batch\(n\)"),
    "no targets": ([(f"return x, {TARGETS}", "return x")], r"data: batches have no targets, .*must be \(x, y\)"),
    "lengths": ([(TARGETS, f"{TARGETS}[1:]")], r"data.build: data.py:load: returned arrays of \[64, 63\] samples"),
    "name in call": (
        [NET, ("self.dense(inputs)", "self.dens(inputs)")],
        r'File ".*model.py", line 11, in call\n.*return self.dens\(inputs\)\n(.*\n)+.*no attribute \'dens\'',
    ),
    "shapes in call": (
        [NET, ("self.dense(inputs)", "keras.ops.matmul(inputs, inputs)")], r'File ".*model.py", line 11, in call',
    ),
    "step that returns nothing": (
        [NET, ("    def call", "    def train_step(self, data):\n        return 3\n\n    def call")],
        r"the model's step returned int; must return a dict of losses and metrics",
    ),
    "labels out of range": (
        [('"adam", "mse"', '"adam", "sparse_categorical_crossentropy"'), (TARGETS, "np.arange(count) % 5")],
        r"model: on its first batches: raised InvalidArgumentError\n(.*\n)+.*outside the valid range of \[0, 1\)",
    ),
    "step of validation": (
        [NET, ("    def call", "    def test_step(self, data):\n        return {}[0]\n\n    def call"),
         ("batch: 16", "batch: 16, validation: 0.25")],
        r'model: tracing its step of validation \(test_step\): raised KeyError\n.*model.py", line 11, in test_step',
    ),
    "exception in step 12": (
        [STREAM, (MAKE, "spec = [tf.TensorSpec((None, n)) for n in (3, 1)]\n    "
                  "return tf.data.Dataset.from_generator(give, output_signature=tuple(spec))")],
        r'model: in steps 9 to 12, which are one call: .*\n(.*\n)+.*File ".*data.py", line 18, in give',
    ),
    "callback that raises": (
        [("epochs: 2", 'epochs: 2, callbacks: [{build: "data.py:make_printer"}]')],
        r'train.callbacks.0 \(LambdaCallback\): on_epoch_end: raised KeyError\n.*data.py", line 24, in <lambda>',
    ),
    "dataset that ends": (
        [STREAM, (MAKE, "return tf.data.Dataset.from_tensor_slices(load(count)).batch(16).take(0)")],
        r"data.*has no batch",
    ),
    "nan in the data": (
        [("return x, x", "x[3] = np.nan\n    return x, x")], r"data: inputs: 1 of 64 samples are not finite.*number 3",
    ),
    "loss that grows beyond all numbers": (
        [('"adam", "mse"', 'keras.optimizers.SGD(1e30), "mse"')],
        r"the loss is not finite in the 4 steps after step 0\n.*the data are finite.*learning rate.*clipnorm",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_it_is_told_and_nothing_half_written_is_left(tmp_path, monkeypatch, name):
    changes, said = FAULTS[name]
    texts = dict(FILES)
    for old, new in changes:
        assert any(old in text for text in texts.values()), old
        texts = {file: text.replace(old, new) for file, text in texts.items()}
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
    monkeypatch.chdir(tmp_path)
    told = run("fit", "card.yaml", "-o", "run", code=2)
    assert re.search(said, told), told
    assert "Traceback" not in told.partition("error:")[0] and str(Path(tfperf.__file__).parent) not in told
    left = {path.name for path in (tmp_path / "run").iterdir()} if (tmp_path / "run").exists() else set()
    assert not left & {"model.keras", "best.keras", "report.json", "results.h5", "report.html"}
    assert not [path for path in left if "tmp" in path]
