"""A profile's report never replaces that of a run."""

import pytest

from tfperf.errors import UserError
from tfperf.report.profile_files import prepare_folder


@pytest.mark.parametrize("name", ["run.json", "sweep.json"])
def test_a_folder_with_a_run_or_a_sweep_is_refused(tmp_path, name):
    prepare_folder(tmp_path)
    (tmp_path / name).touch()
    with pytest.raises(UserError, match="holds a run or a sweep"):
        prepare_folder(tmp_path)
