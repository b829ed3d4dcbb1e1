"""The JSON schema that editors use."""

import jsonschema
import pytest

from tests.runcard.cards import PACK
from tfperf.runcard.schema import alternatives, card_schema

CHECK = jsonschema.Draft202012Validator(card_schema())


def blocks():
    return [card_schema(), *card_schema()["$defs"].values()]


def test_it_is_a_valid_schema_of_its_dialect():
    assert card_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(card_schema())


def test_every_block_is_closed_and_every_key_described():
    for block in blocks():
        assert block["additionalProperties"] is False
        assert block["description"]
        for key, schema in block["properties"].items():
            assert schema.get("description"), key


def test_every_alternative_has_a_type():
    for block in blocks():
        for schema in block["properties"].values():
            assert all("type" in branch for branch in alternatives(schema))


@pytest.mark.parametrize(
    ("replicas", "good"),
    [(1, True), (100_000, True), ("101-200", True), (0, False), (100_001, False), (1.5, False), (True, False),
     ("100", False), ("0-5", False), ("a-b", False), ("1-2-3", False), ([1, 2], False), (None, False)],
)  # fmt: skip
def test_replicas(replicas, good):
    assert CHECK.is_valid({"replicas": replicas, "data": {"pack": PACK}, "train": {"steps": 5}}) is good
