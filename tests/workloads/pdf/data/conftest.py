import shutil
from pathlib import Path

import pytest

from tests.workloads.pdf.data.packs import write_good


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    return write_good(tmp_path_factory.mktemp("pack") / "good.h5")


@pytest.fixture
def good(original, tmp_path):
    return Path(shutil.copy(original, tmp_path))


@pytest.fixture
def tables(tmp_path):
    pytest.importorskip("pineappl", reason="the packages of the extra `nnpdf` are not installed")
    pytest.importorskip("nnpdf_data", reason="the packages of the extra `nnpdf` are not installed")
    folder = tmp_path / "tables"
    folder.mkdir()
    return folder
