"""A folder of pictures: free photographs that packages ship, the same bytes however its making was stopped."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from tests.runcard.cards import ROOT
from tfperf.errors import UserError
from tfperf.zoo import photos_sources
from tfperf.zoo.photos import find_photos
from tfperf.zoo.photos_command import make_folder_of_photos
from tfperf.zoo.photos_distortions import draw_colours, draw_crop, make_picture
from tfperf.zoo.photos_folder import PhotoSettings, find_default_folder, list_photos, make_photos, read_settings
from tfperf.zoo.photos_sources import CC0, CC_BY, CLASSES, DATA, PHOTOGRAPHS, PUBLIC, find_photograph, read_photograph

SMALL = PhotoSettings(count=45, smallest=64, largest=80)


def read_all(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    assert make_photos(folder, SMALL) == 45
    return folder


def test_each_photograph_is_free_and_lies_in_its_package():
    assert list(CLASSES) == sorted({*CLASSES}) and len({one.file for one in PHOTOGRAPHS}) == len(PHOTOGRAPHS) == 13
    told = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    for one in PHOTOGRAPHS:
        spec = find_spec(DATA[one.package][0])
        assert spec is not None and spec.origin is not None
        assert find_photograph(one).is_relative_to(Path(spec.origin).parent)
        picture = read_photograph(one)
        assert picture.mode == "RGB" and min(picture.size) >= 300 and one.licence in (CC0, CC_BY, PUBLIC)
        assert f"| {one.name} | {one.what} | {one.author} | {one.licence} | {one.package}'s `{one.file}`" in told


@pytest.mark.parametrize("photo", [(451, 300), (1411, 1411)])
def test_windows_lie_within_the_photograph_and_have_the_shape_of_the_picture(photo):
    random = np.random.default_rng(1)
    shares = []
    for _ in range(300):
        size = (int(random.integers(400, 641)), int(random.integers(400, 641)))
        window = draw_crop(random, photo, size)
        assert window.width / window.height == pytest.approx(size[0] / size[1])
        a, b, c, d, e, f = window.to_affine(size)
        for x, y in ((0, 0), (size[0], 0), (0, size[1]), size):
            assert -1e-9 <= a * x + b * y + c <= photo[0] + 1e-9 and -1e-9 <= d * x + e * y + f <= photo[1] + 1e-9
        assert (np.hypot(a, d), np.hypot(b, e)) == pytest.approx((window.width / size[0], window.height / size[1]))
        assert a * b + d * e == pytest.approx(0) and a * e - b * d > 0, "turned, neither sheared nor mirrored"
        assert a * size[0] / 2 + b * size[1] / 2 + c == pytest.approx(window.x)
        shares.append(window.height / photo[1])
    assert min(shares) < 0.4 and max(shares) > 0.7


def test_a_picture_shows_its_window():
    """On a photograph whose colours tell places, they are those that the window says, to rounding."""
    across, down = np.meshgrid(np.arange(250), np.arange(200))
    photo = Image.fromarray(np.stack([across, down, 0 * down], -1).astype(np.uint8))
    window = draw_crop(np.random.default_rng(3), photo.size, (90, 70))
    a, b, c, d, e, f = affine = window.to_affine((90, 70))
    assert abs(window.turn) > 0.05
    found = photo.transform((90, 70), Image.Transform.AFFINE, affine, Image.Resampling.BILINEAR)
    x, y = np.meshgrid(np.arange(90) + 0.5, np.arange(70) + 0.5)
    wanted = np.stack([a * x + b * y + c, d * x + e * y + f], -1) - 0.5
    inner = (wanted >= 0).all(-1)
    assert np.abs(np.asarray(found)[..., :2] - wanted)[inner].max() <= 1


def test_colours_keep_grey_pictures_grey_but_for_the_gains():
    matrices = np.array([draw_colours(np.random.default_rng(seed)) for seed in range(200)]).reshape(-1, 3, 4)
    gains = matrices[..., :3].sum(-1)
    assert np.all(matrices[..., 3] == 0) and np.all((gains > 0.3) & (gains < 2.5)) and np.ptp(gains, axis=1).min() > 0
    weights = np.array([0.299, 0.587, 0.114])
    # without the gains, the luminance of any colour stays what it was
    np.testing.assert_allclose(
        np.einsum("c,ncd->nd", weights, matrices[..., :3] / gains[..., None]), np.tile(weights, (200, 1)), rtol=1e-12
    )


def test_pictures_are_as_large_as_those_of_the_web():
    photo, sizes = read_photograph(PHOTOGRAPHS[0]), []
    for seed in range(12):
        picture = make_picture(photo, (520, 480), np.random.default_rng(seed))
        with Image.open(BytesIO(picture)) as opened:
            assert opened.format == "JPEG" and opened.mode == "RGB" and opened.size == (520, 480)
        sizes.append(len(picture))
    assert 25e3 < np.mean(sizes) < 60e3


def test_each_class_has_its_share_and_a_part_of_it_is_held_out(made):
    parts = {part: list_photos(made, part) for part in ("train", "held")}
    for paths, labels in parts.values():
        assert [CLASSES[label] for label in labels] == [Path(path).parent.name for path in paths]
        assert all(Path(path).stat().st_size for path in paths)
    every = Counter(label for _, labels in parts.values() for label in labels)
    assert sum(every.values()) == 45 and {*every.values()} == {3, 4} and {*every} == {*range(13)}
    assert Counter(parts["held"][1]) == dict.fromkeys(range(13), 1)
    content = read_all(made)
    assert len({*content.values()}) == len(content) == 47
    sizes = set()
    for path in parts["train"][0]:
        with Image.open(path) as picture:
            assert all(64 <= side <= 80 for side in picture.size)
            sizes.add(picture.size)
    assert len(sizes) > 20, "classes have draws of their own"
    credits = content["CREDITS.txt"].decode()
    assert all(one.author in credits and one.source in credits for one in PHOTOGRAPHS)


def test_a_folder_that_was_stopped_becomes_what_it_would_have_been(made, tmp_path):
    make_photos(tmp_path, SMALL)
    pictures = sorted(tmp_path.rglob("*.jpg"))
    for path in (*pictures[::3], tmp_path / "CREDITS.txt"):
        path.unlink()
    pictures[1].write_bytes(b"")  # as a machine that stopped leaves
    left, old = pictures[2].with_name(".1a.tmp"), pictures[2].with_name(".1b.tmp")  # as a kill leaves
    for path in (left, old):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 10_000,) * 2)
    assert make_photos(tmp_path, SMALL) == len(pictures[::3]) + 1
    assert left.exists() and not old.exists(), "another process may write the young one"
    left.unlink()
    assert read_all(tmp_path) == read_all(made) and make_photos(tmp_path, SMALL) == 0
    assert read_settings(tmp_path) == SMALL
    other = tmp_path / "other"
    make_photos(other, replace(SMALL, seed=2))
    assert not {*read_all(other).values()} & {*read_all(made).values()} - {(made / "CREDITS.txt").read_bytes()}


def test_a_kill_loses_nothing(tmp_path):
    command = [sys.executable, "-m", "tfperf.zoo.photos", str(tmp_path / "a"), "--count", "260", "--size", "100-140"]
    process = subprocess.Popen([*command, "-q"], cwd=ROOT)
    try:
        while len([*tmp_path.rglob("*.jpg")]) < 20 and process.poll() is None:
            time.sleep(0.005)
    finally:
        process.kill()
    assert process.wait() == -9, "it was done before it could be killed"
    done = len([*tmp_path.rglob("*.jpg")])
    for path in tmp_path.rglob(".*.tmp"):
        path.unlink()
    settings = PhotoSettings(260, 100, 140)
    assert 20 <= done < 260 and make_photos(tmp_path / "a", settings) == 260 - done
    make_photos(tmp_path / "b", settings)
    assert read_all(tmp_path / "a") == read_all(tmp_path / "b")


def spoil_strange(folder):
    (folder / "photos.json").unlink()


def spoil_beside(folder):
    (folder / "train" / "notes.txt").write_text("mine")


def spoil_settings(folder):
    (folder / "photos.json").write_text("[1]")


def spoil_number(folder):
    path = folder / "photos.json"
    path.write_text(path.read_text().replace('"count": 45', '"count": "45"'))


def spoil_json(folder):
    (folder / "photos.json").write_text("{")


def spoil_source(folder):
    path = folder / "photos.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "photographs": "0"}))
    next(folder.rglob("*.jpg")).unlink()


@pytest.mark.parametrize(
    ("spoil", "settings", "said"),
    [
        (spoil_strange, SMALL, r"holds other things, as CREDITS\.txt; must be empty, missing, or of python -m tfperf"),
        (spoil_beside, SMALL, r"holds other things than its pictures, as train/notes\.txt; remove them"),
        (spoil_settings, SMALL, r"photos\.json: is damaged; must be as python -m tfperf\.zoo\.photos DIR wrote it"),
        (spoil_number, SMALL, r"photos\.json: is damaged; must be"),
        (spoil_json, SMALL, r"photos\.json: damaged: Expecting"),
        (spoil_source, SMALL, r"was made from other versions of the photographs \(0, not \w{64}\); remove it"),
        (None, replace(SMALL, seed=2), r"was made with seed 1, not 2; choose another folder"),
        (None, replace(SMALL, count=25), r"count: got 25; must be 26 at least, two of each class"),
        (None, replace(SMALL, count=26), r"was made with count 45, not 26; choose another folder"),
    ],
)
def test_other_folders_are_refused_and_left_alone(made, tmp_path, spoil, settings, said):
    for name, content in read_all(made).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if spoil is not None:
        spoil(tmp_path)
    before = read_all(tmp_path)
    with pytest.raises(UserError, match=said):
        make_photos(tmp_path, settings)
    assert read_all(tmp_path) == before


def test_a_file_in_the_folders_place_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(UserError, match="is a file; must be a folder, or missing"):
        make_photos(path, SMALL)


def test_missing_photographs_are_told_with_the_command_that_installs_them(monkeypatch, made, tmp_path):
    monkeypatch.setattr(photos_sources, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'scikit-image is not installed, .*: pip install "\.\[zoo\]"'):
        make_photos(tmp_path, SMALL)
    assert make_photos(made, SMALL) == 0, "pictures that are there need no photographs"


def test_a_card_that_names_no_folder_has_one_in_the_cache(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TFPERF_CACHE", str(tmp_path))
    folder = find_photos(None, 26)
    assert folder == find_default_folder(PhotoSettings(26)) and folder.is_relative_to(tmp_path)
    assert len(list_photos(folder, "train")[0]) == len(list_photos(folder, "held")[0]) == 13
    said = capsys.readouterr().err
    assert f"making pictures in {folder}: 26 of 26" in said
    next(folder.rglob("*.jpg")).unlink()
    assert find_photos(str(folder), 4000) == folder and len([*folder.rglob("*.jpg")]) == 26
    with pytest.raises(UserError, match=r"has no photos\.json; must be a folder that python -m tfperf\.zoo\.photos"):
        find_photos(str(tmp_path), 26)


def test_the_command_makes_a_folder_and_tells_of_it(tmp_path):
    arguments = [str(tmp_path / "new"), "--count", "26", "--size", "64", "--seed", "3"]
    done = CliRunner().invoke(make_folder_of_photos, arguments)
    assert done.exit_code == 0, done.output
    assert "26 of 13 classes: 13 to train on, 13 held out" in done.output and "making pictures 1 of 26" in done.output
    again = CliRunner().invoke(make_folder_of_photos, [*arguments, "-q"])
    assert again.exit_code == 0 and "made now  0 in" in again.output and "making" not in again.output
    for wrong in ("640-400", "10", "4x4", "400-5000"):
        refused = CliRunner().invoke(make_folder_of_photos, [str(tmp_path / "x"), "--size", wrong])
        assert isinstance(refused.exception, UserError) and f"--size: got {wrong}; must be" in str(refused.exception)
    assert not (tmp_path / "x").exists()
