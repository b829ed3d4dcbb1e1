"""What is refused before Keras is loaded."""

import pytest

from tfperf.errors import CardError
from tfperf.workloads.keras.refusals import refuse_backend


def test_another_backend_in_keras_own_file_is_refused_before_keras_is_loaded(tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    for text in ("{", "[]", '{"backend": "tensorflow"}'):
        (tmp_path / "keras.json").write_text(text)
        refuse_backend()
    (tmp_path / "keras.json").write_text('{"backend": "jax"}')
    with pytest.raises(CardError, match=r"keras\.json: backend is jax; must be tensorflow: set KERAS_BACKEND"):
        refuse_backend()
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    refuse_backend()
