"""What Python programs are told: arguments of theirs in place of options and keys of cards; what is refused at once."""

import subprocess
import sys
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfperf
from tests.workloads.keras import nets
from tests.workloads.keras.replicas import nets as replica_nets
from tfperf.api.wording import explain_for_python, make_options
from tfperf.errors import CardError, Interrupted, RunDirectoryError, UserError
from tfperf.workloads.options import Options


def build_open():
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])


def build_of(units):
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(units)])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"replicas": 0}, "^replicas: got 0"),
        ({"replicas": "9-2"}, "^replicas: got '9-2'; must be a number"),
        ({"data": "boostrap"}, "ensemble.data: got .*boostrap.*must be all, bootstrap or"),
        ({"form": "stack"}, "engine.form: got 'stack'; allowed: auto, lanes, stacked"),
        ({"patience": -1}, "ensemble.patience: got -1"),
        ({"learning_rate": [0.1, 0.2]}, r"ensemble.learning_rate: got \[0.1, 0.2\]; must have as many values"),
    ],
)
def test_settings_of_an_ensemble_are_refused_at_the_call(settings, said):
    with pytest.raises(CardError, match=said):
        tfperf.ensemble(nets.build_linear, **{"replicas": 3, **settings})


def test_that_needs_no_tensorflow():
    code = (
        "import sys, tfperf; tfperf.ensemble(print, replicas=3, data='bootstrap'); print('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("validation_split", "validation=0.2"), ("validation_data", r"validation=\(x, y\)"),
        ("verbose", "quiet=False"), ("batch", "batch_size=32"), ("seed", "seed=1"),
    ],
)  # fmt: skip
def test_names_of_keras_are_told_apart(name, meant):
    setup: Any = tfperf.ensemble(nets.build_linear, replicas=3)
    with pytest.raises(TypeError, match=f"argument '{name}'; write .*{meant}"):
        setup.fit(*nets.load(), epochs=1, **{name: 1})


def test_names_that_nobody_knows_are_refused():
    with pytest.raises(TypeError, match=r"ensemble.. got an unexpected keyword argument 'copies'$"):
        tfperf.ensemble(nets.build_linear, replicas=3, copies=4)
    with pytest.raises(TypeError, match=r"argument 'batch_size'; write batch=32"):
        tfperf.fit(nets.build_linear, nets.load(), epochs=1, batch_size=1)


def test_options_are_asked_for_in_one_way():
    assert make_options(None, True, False, False, None) == Options(resume=True)
    assert make_options(None, False, False, False, "51-52") == Options(replicas=(51, 52))
    with pytest.raises(CardError, match=r"options: exclude resume, replicas"):
        make_options(Options(), True, False, False, 5)


def test_messages_name_arguments():
    with (
        pytest.raises(Interrupted, match=r"signal 15 at step 7; go on with resume=True$") as stop,
        explain_for_python(),
    ):
        raise Interrupted(15, 7, "go on with --resume")
    assert stop.value.exit_code == 143
    with pytest.raises(UserError) as error, explain_for_python():
        raise RunDirectoryError("a: --resume goes on with it, --replicas adds to it, --force begins again")
    assert str(error.value) == "a: resume=True goes on with it, replicas adds to it, force=True begins again"
    assert error.value.faults == (str(error.value),)


@pytest.mark.slow
def test_a_run_goes_on_by_a_plain_argument(tmp_path, capsys):
    x, y = replica_nets.load()
    setup = tfperf.ensemble(replica_nets.build, replicas=2, form="lanes")
    given = {"epochs": 1, "batch_size": 30, "run": tmp_path / "run", "keys": {"engine.xla": False}}
    setup.fit(x, y, **given)
    assert "report.html" not in capsys.readouterr().out
    with pytest.raises(RunDirectoryError, match=r"resume=True goes on with it, force=True begins"):
        setup.fit(x, y, **given)
    again = setup.fit(x, y, **given, resume=True, quiet=False)
    assert again.replicas.id.tolist() == [1, 2] and f"{tmp_path}/run/report.html" in capsys.readouterr().out
    assert setup.fit(x, y, **given, replicas="3-3").replicas.id.tolist() == [1, 2, 3]


def test_a_dataset_has_its_targets():
    x, y = nets.load()
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
    with pytest.raises(CardError, match=r"^y: must be left out for x of type _BatchDataset"):
        tfperf.ensemble(nets.build_linear, replicas=2).fit(data, y, epochs=1)
    with pytest.raises(UserError, match=r"^data: a dataset beside something else; must be alone: its elements are"):
        tfperf.fit(nets.build_linear, (data, y), epochs=1)
    with pytest.raises(CardError, match=r"a share cannot be taken.*validation=dataset, or"):
        tfperf.fit(nets.build_linear, data, epochs=1, validation=0.2)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (build_open, "the model is not compiled; call model.compile"),
        (build_of, "it is build_of.units.; give one that takes none, as functools.partial makes it"),
        (lambda: 3, "^model: returned int; must return a keras.Model"),
    ],
)
def test_faults_of_a_model_are_told_in_python(model, said):
    x = np.zeros((8, 3), "float32")
    with pytest.raises(UserError, match=said) as error:
        tfperf.fit(model, (x, x[:, :1]), epochs=1)
    assert "tfperf.given" not in str(error.value)
