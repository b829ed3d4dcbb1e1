"""Several packs as one: what they have stays as it is, and errors of one name are one error."""

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from tests.workloads.pdf.data.packs import ATTRIBUTES, X, groups
from tests.workloads.pdf.data.test_write import content
from tfperf.cli import main
from tfperf.errors import PackError, UserError
from tfperf.workloads.pdf.data.covariance import compute_covariance
from tfperf.workloads.pdf.data.join import describe_mixture, join_packs
from tfperf.workloads.pdf.data.pack import open_pack, read_dataset
from tfperf.workloads.pdf.data.write import write_pack


@pytest.fixture
def two(tmp_path):
    """The sets of the good pack, one each, and the positivity set in both."""
    paths = []
    for name in ("TOY_F2", "TOY_DP"):
        path = tmp_path / f"{name}.h5"
        mine = [one for one in groups() if one.name == name or one.name.startswith("positivity")]
        write_pack(path, X, {**ATTRIBUTES, "provenance": name, "order": "NLO"}, mine)
        paths.append(path)
    return paths


def change(path, name, value):
    with h5py.File(path, "r+") as file:
        file.attrs[name] = value


def test_sets_keep_their_bytes_and_errors_of_one_name_are_one(two, tmp_path):
    target = join_packs(two, tmp_path / "both.h5")
    joined, parts = content(target), [content(path) for path in two]
    for part in parts:
        assert all(joined[key] == value for key, value in part.items() if key != "@provenance")
    assert joined["@provenance"] == "TOY_F2.h5: TOY_F2; TOY_DP.h5: TOY_DP"
    with open_pack(target) as file:
        found = compute_covariance([read_dataset(file, name) for name in ("TOY_F2", "TOY_DP")])
    common = found.to_dense()[:4, 4:]
    assert np.all(common != 0)  # LUMI0
    np.testing.assert_allclose(common, np.outer(get_errors("TOY_F2"), get_errors("TOY_DP")), rtol=1e-12)


def get_errors(name):
    (one,) = (group for group in groups() if group.name == name)
    return one.arrays["sys"][:, [str(n, "ascii") for n in one.arrays["sys_names"]].index("LUMI0")].astype(float)


def test_tables_of_several_orders_are_told(two, tmp_path):
    assert describe_mixture(join_packs(two, tmp_path / "same.h5")) is None
    change(two[1], "order", "NNLO (FONLL-C)")
    said = CliRunner().invoke(main, ["join-packs", *map(str, two), "-o", str(tmp_path / "both.h5")])
    assert said.exit_code == 0 and "warning: tables of several orders are joined: NLO, NNLO (FONLL-C)" in said.output


def test_what_differs_is_kept_of_both(two, tmp_path):
    change(two[1], "order", "NNLO")
    change(two[1], "alphas_mz", 0.118)
    with h5py.File(join_packs(two, tmp_path / "both.h5")) as file:
        assert file.attrs["order"] == "NLO; NNLO" and file.attrs["alphas_mz"] == 0.118


def test_t0_keeps_its_source_and_theories_that_differ_are_left_out(two, tmp_path):
    for number, path in enumerate(two):
        change(path, "t0_provenance", f"fit {number}")
        change(path, "theory", f'{{"MZ": "91.{number}"}}')
        with h5py.File(path, "r+") as file:
            group = file[path.stem]
            group.pop("t0", None)
            group["t0"] = group["cv"][()]
    with h5py.File(join_packs(two, tmp_path / "both.h5")) as file:
        assert [file[path.stem].attrs["t0_provenance"] for path in two] == ["fit 0", "fit 1"]
        assert "t0_provenance" not in file.attrs and "theory" not in file.attrs
    change(two[1], "theory", '{"MZ": "91.0"}')
    with h5py.File(join_packs(two, tmp_path / "same.h5")) as file:
        assert file.attrs["theory"] == '{"MZ": "91.0"}'


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda a, b: (change(a, "mc", 1.5), change(b, "mc", "heavy")), "mc: got heavy; must be 1.5"),
        (lambda a, b: change(b, "Q0", 1.0), "Q0: got 1.0; must be 1.65"),
        (lambda a, b: (change(a, "alphas_mz", 0.118), change(b, "alphas_mz", 0.12)), "alphas_mz: got 0.12; must be"),
        (lambda a, b: b.write_bytes(a.read_bytes()), "TOY_F2: a pack before it has a set of that name"),
    ],
)
def test_packs_that_do_not_fit_are_refused(two, tmp_path, spoil, words):
    spoil(*two)
    with pytest.raises(PackError, match=words):
        join_packs(two, tmp_path / "both.h5")
    assert not (tmp_path / "both.h5").exists()


def test_other_positivity_sets_of_one_name_are_refused(two, tmp_path):
    with h5py.File(two[1], "r+") as file:
        file["positivity/TOY_POS/fk"][...] *= 2
    with pytest.raises(PackError, match="positivity/TOY_POS: has other tables"):
        join_packs(two, tmp_path / "both.h5")


def test_one_pack_or_an_existing_file_is_refused(two, tmp_path):
    with pytest.raises(UserError, match="at least two"):
        join_packs(two[:1], tmp_path / "both.h5")
    with pytest.raises(UserError, match="exists"):
        join_packs(two, two[0])
