"""Every number, text and list of a card has limits, and what lies beyond them is refused."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.runcard.cards import SHORT, faults, write
from tests.workloads.translate.cards import SHORT as TRANSLATION
from tfperf.errors import CardError
from tfperf.runcard.sweep import Sweep
from tfperf.workloads.cards import load_card
from tfperf.workloads.pdf.card import Card, Closure, Data, Optimizer, Train
from tfperf.workloads.registry import WORKLOADS

LOW, HIGH = {"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}


def parts(schema, path=""):
    """All schemas inside of a schema, with their paths."""
    yield path, schema
    for name, inner in schema.items():
        if name in ("properties", "$defs"):
            for key, one in inner.items():
                yield from parts(one, f"{path}.{key}")
        elif name in ("anyOf", "prefixItems"):
            for i, one in enumerate(inner):
                yield from parts(one, f"{path}|{i}")
        elif name in ("items", "additionalProperties", "propertyNames") and isinstance(inner, dict):
            yield from parts(inner, f"{path}.{name}")


def unlimited(schema):
    """What a schema leaves without an end."""
    kind, fixed = schema.get("type"), {"enum", "const"} & set(schema)
    if fixed:
        return False
    if kind in ("integer", "number"):
        return not (LOW & set(schema) and HIGH & set(schema))
    if kind == "array":
        return "maxItems" not in schema
    if kind == "string":
        return not {"maxLength", "pattern"} & set(schema) and schema.get("format") != "path"
    return (
        "additionalProperties" in schema
        and schema["additionalProperties"] is not False
        and not ("maxProperties" in schema or "enum" in schema.get("propertyNames", {}))
    )


@pytest.mark.parametrize("name", WORKLOADS.list_names())
def test_nothing_in_a_card_is_without_limits(name):
    every = dict(parts(WORKLOADS.get_kind(name).grammar.json_schema))
    assert len(every) > 100
    assert [path for path, schema in every.items() if unlimited(schema)] == []


@pytest.mark.parametrize(
    ("override", "limits"),
    [
        ("engine.tolerance=1e300", "from 0 to 100"),
        ("train.optimizer.learning_rate=1e300", "from 1e-12 to 1e+06"),
        ("train.optimizer.learning_rate=1e-320", "from 1e-12 to 1e+06"),
        ("train.optimizer={name: Ftrl, beta: 1e300}", "from 0 to 1e+06"),
        ("train.optimizer={name: Ftrl, learning_rate_power: -1e300}", "from -10 to 0"),
        ("train.optimizer={name: Adam, epsilon: 1e300}", "from 1e-30 to 1000"),
        ("train.optimizer.clipnorm=1e300", "from 1e-15 to 1e+15"),
        ("data.cuts.q2_min=1e300", "from 0 to 1e+12"),
        ("data.sets=[{name: A, weight: 1e300}]", "from 1e-09 to 1e+09"),
        ("positivity.final=1e300", "from 1e-12 to 1e+15"),
        ("model.exponents.g={alpha: [-1e300, 1], beta: [1, 2]}", "from -20 to 20"),
        ("closure={law: ., replica: 100001}", "from 1 to 100000"),
        ("sweep={timeout: 1e300, keys: {seed: [1]}}", "from 0.01 to 1e+06"),
        ("sweep={keys: {seed: {from: 0, to: 1e300, step: 1}}}", "from -1e+15 to 1e+15"),
        ("seed=" + "9" * 100, "from 0 to 4294967295"),
        ("seed=" + "9" * 10_000, "from 0 to 4294967295"),
        ("engine.tolerance=" + "9" * 99, "from 0 to 100"),
        ("engine.tolerance=1e400", "from 0 to 100"),
        ("engine.tolerance=-.inf", "from 0 to 100"),
        ("engine.tolerance=.nan", "from 0 to 100"),
        ("engine.tolerance=1_000", "from 0 to 100"),
        ("engine.tolerance=0x10", "from 0 to 100"),
        ("engine.tolerance=1:30", "from 0 to 100"),
        ("seed=0o7", "from 0 to 4294967295"),
        ("seed=010", "from 0 to 4294967295"),
        ("seed=2024-01-31", "from 0 to 4294967295"),
        ("seed=-0.0", "from 0 to 4294967295"),
    ],
)
def test_a_number_beyond_its_range_is_refused_with_the_range(override, limits, tmp_path):
    (fault,) = faults(tmp_path, SHORT, override)
    assert limits in fault and fault.startswith(f"--set {override[:20]}"[:20])


@pytest.mark.parametrize("key", ["learning_rate", "global_clipnorm"])
def test_the_numbers_of_a_translation_have_ranges(key, tmp_path):
    with pytest.raises(CardError, match=rf"train\.optimizer\.{key}: got 1e300; must be a number from 1e-1"):
        load_card(write(tmp_path, TRANSLATION), [f"train.optimizer.{key}=1e300"])


def test_noise_needs_a_level_that_has_some(tmp_path):
    text = "closure.noise: got 2; must be 0 or left out where level = 0, which has no noise"
    assert faults(tmp_path, SHORT, "closure.level=0", "closure.noise=2") == [f"--set closure.noise=2: {text}"]
    assert faults(tmp_path, SHORT, "closure.level=2", "closure.noise=2") == []
    assert faults(tmp_path, SHORT, "closure={level: 0, noise: 0}") == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: Optimizer(learning_rate=1e300),
        lambda: Closure(noise=2),
        lambda: Closure(level=2, noise=10**5000),
        lambda: Sweep(keys={"seed": tuple(range(1001))}),
        lambda: Sweep(keys={"seed": {"from": 0, "to": 10**18, "step": 10**17}}),
        lambda: Data(pack=Path("p"), exclude=tuple(map(str, range(1001)))),
        lambda: Card(replicas=("a",), data=Data(pack=Path("p")), train=Train(steps=1)),  # type: ignore[arg-type]
        lambda: Card(replicas=(1.0, 2.0), data=Data(pack=Path("p")), train=Train(steps=1)),  # type: ignore[arg-type]
    ],
)
def test_the_same_from_python(make):
    with pytest.raises(ValidationError):
        make()
