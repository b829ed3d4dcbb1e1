"""The JSON schema that editors use."""

import jsonschema
import pytest

from tests.runcard.cards import PACK
from tfperf.runcard.schema import list_alternatives
from tfperf.workloads.registry import WORKLOADS

CHECK = jsonschema.Draft202012Validator(WORKLOADS.get_kind("pdf").grammar.json_schema)
SCHEMAS = {name: WORKLOADS.get_kind(name).grammar.json_schema for name in WORKLOADS.list_names()}


def blocks(name):
    return [SCHEMAS[name], *SCHEMAS[name]["$defs"].values()]


@pytest.mark.parametrize("name", SCHEMAS)
def test_it_is_a_valid_schema_of_its_dialect(name):
    assert SCHEMAS[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_block_is_closed_and_every_key_described(name):
    for block in blocks(name):
        assert block["additionalProperties"] is False
        assert block["description"]
        for key, schema in block["properties"].items():
            assert schema.get("description"), key


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_alternative_has_a_type(name):
    grammar = WORKLOADS.get_kind(name).grammar

    def check(path):
        assert all("type" in branch for branch in list_alternatives(grammar.get_schema(path))), path
        for key in grammar.list_keys(path):
            check((*path, key))

    check(())


@pytest.mark.parametrize(
    ("replicas", "good"),
    [(1, True), (100_000, True), ("101-200", True), (0, False), (100_001, False), (1.5, False), (True, False),
     ("100", False), ("0-5", False), ("a-b", False), ("1-2-3", False), ([1, 2], False), (None, False)],
)  # fmt: skip
def test_replicas(replicas, good):
    assert CHECK.is_valid({"replicas": replicas, "data": {"pack": PACK}, "train": {"steps": 5}}) is good
