"""A finished fit as an LHAPDF grid set at Q0, and as initial conditions for programs that evolve PDFs.

Source: format `lhagrid1` of LHAPDF 6 (arXiv:1412.7420, appendix); the `.exportgrid` document is what `evolven3fit` of
NNPDF (arXiv:2109.02671) reads.
"""

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tfperf.arrays import BoolMask, Float64Array
from tfperf.console.words import show_text
from tfperf.errors import StorageError, UserError
from tfperf.results.files import sync
from tfperf.results.reading import parse_json
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.coupling import compute_alpha_s
from tfperf.workloads.pdf.results.flavours import FLAVOURS, PDG_IDS, to_flavours
from tfperf.workloads.pdf.results.postfit import read_survivors
from tfperf.workloads.pdf.results.record import FitResult

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")  # a slash would name a member, a blank would end the name
PIDS = (-4, -3, -2, -1, 21, 1, 2, 3, 4)
# LHAPDF wants two knots in Q; one part in a thousand lies well within the reach of a PDF at one scale
Q_STEP = 1.001
ORDERS = {"LO": 0, "NLO": 1, "NNLO": 2, "N3LO": 3}
# of the theory of the tables, beside its order; masses in GeV. Without them nobody knows what the coupling is
REQUIRED = ("alphas_mz", "mc", "mb")
# where nothing says: the Z mass, and that of the top quark in the NNPDF4.0 fits (arXiv:2109.02653)
DEFAULTS = {"mz": 91.1876, "mt": 172.5}
EXAMPLES = {"order": "NNLO", "alphas_mz": "0.118", "mc": "1.51", "mb": "4.92"}
# the coupling is run in powers of itself, between these masses
RANGES = {"alphas_mz": (0.01, 0.5), "mz": (10, 1000), "mc": (0.1, 10), "mb": (1, 50), "mt": (50, 1000)}
EXPORT_LABELS = {
    "TBAR": -6, "BBAR": -5, "CBAR": -4, "SBAR": -3, "UBAR": -2, "DBAR": -1, "GLUON": 21,
    "D": 1, "U": 2, "S": 3, "C": 4, "B": 5, "T": 6, "PHT": 22,
}  # fmt: skip


def export(
    run: Path, output: Path, name: str | None = None, say: Callable[[str], object] = show_text,
    theory: Mapping[str, str] | None = None,
) -> Path:  # fmt: skip
    """Write the PDF set of the finished run in folder `run` as folder OUTPUT/NAME and return that.

    NAME.info, NAME_0000.dat (mean), NAME_0001.dat and NAME_0001.exportgrid ... (the replicas that postfit chose; where
    it was not applied, those that converged). The folder appears complete or not at all. `name` defaults to that of the
    run's folder; `say` gets one line about the replicas that were taken; `theory`: order, alphas_mz, mc, mb, mz, mt
    where the pack names none.

    Raises: UserError where the name is unfit, the folder exists, no replica is left, nothing names the order of the
    theory, its coupling, or the masses of charm and bottom, or `theory` contradicts the pack; StorageError where it
    cannot be written; RunDirectoryError where the run has no results or its postfit is older than they are.
    """
    name = run.resolve().name if name is None else name
    if not NAME.fullmatch(name):
        raise UserError(f"name: got {name!r}; allowed are letters, digits, `_`, `.`, `+`, `-`, a letter or digit first")
    target = output / name
    if target.exists():
        raise UserError(f"{target}: exists already; give another name or folder, or remove it")
    result = _set_theory(store.read(run / "results.h5"), theory or {})
    selected, told = _select_replicas(run, result)
    _write_folder(target, {f"{name}{suffix}": text for suffix, text in format_set(result, selected).items()})
    say(f"{told} and are exported")
    return target


def format_set(result: FitResult, selected: BoolMask) -> dict[str, str]:
    """The set's files, by what follows the set's name in theirs; `selected` (R) picks the replicas."""
    pdf, numbers = to_flavours(result.pdf[selected]), [int(i) for i in result.replicas.id[selected]]
    central = _format_member("central", None, result, pdf.mean(axis=0))
    files = {".info": format_info(result, len(numbers)), "_0000.dat": central}
    for m, (number, values) in enumerate(zip(numbers, pdf, strict=True), start=1):
        files[f"_{m:04d}.dat"] = _format_member("replica", number, result, values)
        files[f"_{m:04d}.exportgrid"] = format_exportgrid(number, result, values)
    return files


def _set_theory(result: FitResult, given: Mapping[str, str]) -> FitResult:
    """The result with these parameters beside those of its pack. Raises: UserError where they contradict it."""
    allowed = ("order", *REQUIRED, *DEFAULTS)
    unknown = [name for name in given if name not in allowed]
    if unknown:
        raise UserError(f"--theory: got {unknown[0]!r}; allowed: {', '.join(f'{name}=VALUE' for name in allowed)}")
    if "order" in given and given["order"] not in ORDERS:
        raise UserError(f"--theory: got order={given['order']}; allowed: {', '.join(ORDERS)}")
    for name, value in given.items():
        if name in RANGES:
            _parse_parameter(name, value, "--theory")
    pack = result.summary.get("pack") or {}
    order, known = _find_theory(pack)
    if "order" in given and order is not None and ORDERS[given["order"]] != order:
        raise UserError(f"--theory: got order={given['order']}; the data pack says {pack['order']}: leave it out")
    for name, value in ((n, v) for n, v in given.items() if n in known):
        if not np.isclose(float(value), known[name], rtol=1e-6):
            raise UserError(f"--theory: got {name}={value}; the data pack says {known[name]:g}: leave it out")
    return replace(result, summary={**result.summary, "pack": {**pack, **given}})


def format_info(result: FitResult, replicas: int) -> str:
    """The set's metadata as YAML; theory parameters are the pack's (summary["pack"]).

    Raises: UserError where these are not what they should be, or are not there.
    """
    pack = result.summary.get("pack") or {}
    order, theory = _resolve_theory(pack)
    loops = min(order, 2)
    masses = theory["mc"], theory["mb"]
    scales, couplings = compute_alpha_s(theory["alphas_mz"], theory["mz"], result.q0, masses, loops)
    version = (result.summary.get("versions") or {}).get("tfperf", "")
    scale = f"Q0 = {result.q0:g} GeV"
    entries = {
        "SetDesc": f"{result.title or 'A fit'}: mean and {replicas} replicas at {scale}, not evolved",
        "Authors": f"made with tfperf {version}".strip(), "Reference": "unpublished", "Format": "lhagrid1",
        "DataVersion": 1, "NumMembers": replicas + 1, "Particle": 2212, "Flavors": list(PIDS), "OrderQCD": order,
        "FlavorScheme": "variable", "NumFlavors": 4, "ErrorType": "replicas",
        "XMin": float(result.x[0]), "XMax": float(result.x[-1]), "QMin": result.q0, "QMax": result.q0 * Q_STEP,
        "MZ": theory["mz"], "MUp": 0.0, "MDown": 0.0, "MStrange": 0.0,
        "MCharm": masses[0], "MBottom": masses[1], "MTop": theory["mt"],
        "AlphaS_MZ": theory["alphas_mz"], "AlphaS_OrderQCD": loops, "AlphaS_Type": "ipol",
        "AlphaS_Qs": scales.tolist(), "AlphaS_Vals": couplings.tolist(),
    }  # fmt: skip
    text: str = yaml.safe_dump(entries, sort_keys=False, default_flow_style=None, width=10**6)
    return text


def format_exportgrid(replica: int, result: FitResult, values: Float64Array) -> str:
    """One replica's x f at Q0 in 14 flavours, (X) rows of EXPORT_LABELS, from `values` (FLAVOURS, X); q20 in GeV^2."""
    grid = _select_columns(values, tuple(EXPORT_LABELS.values()))
    document = {
        "labels": list(EXPORT_LABELS), "pdfgrid": grid.tolist(), "q20": result.q0**2, "replica": replica,
        "xgrid": result.x.tolist(),
    }  # fmt: skip
    text: str = yaml.safe_dump(document, default_flow_style=None)
    return text


def _select_replicas(run: Path, result: FitResult) -> tuple[BoolMask, str]:
    """Which replicas are exported, (R), and why these."""
    passed, total = read_survivors(run, result), len(result.replicas.id)
    selected = result.converged if passed is None else passed
    which = "converged (postfit has not been applied)" if passed is None else "were chosen by postfit"
    if not selected.any():
        raise UserError(f"{run}: none of the {total} replicas {which}; there is nothing to export")
    return np.asarray(selected), f"{selected.sum()} of {total} replicas {which}"


def _find_theory(pack: Mapping[str, Any]) -> tuple[int | None, dict[str, float]]:
    """The order, and those of REQUIRED and DEFAULTS that are there: attributes, or the Z and top mass of `theory`."""
    try:
        card = parse_json(str(pack.get("theory")))
    except ValueError:
        card = None
    inner = {"mz": card.get("MZ"), "mt": card.get("mt")} if isinstance(card, dict) else {}
    given = {key: pack.get(key, inner.get(key)) for key in (*REQUIRED, *DEFAULTS)}
    orders = {part.split(" ")[0] for part in str(pack.get("order")).split("; ")}  # of packs that were joined
    order = ORDERS.get(orders.pop()) if len(orders) == 1 else None
    found = {key: _parse_parameter(key, value, "the data pack") for key, value in given.items() if value is not None}
    return order, found


def _resolve_theory(pack: Mapping[str, Any]) -> tuple[int, dict[str, float]]:
    """The order, and all of REQUIRED and DEFAULTS. Raises: UserError where the pack does not say them."""
    order, found = _find_theory(pack)
    missing = ["order"] if order is None else []
    missing += [key for key in REQUIRED if key not in found]
    if order is None or missing:
        told = "" if pack.get("order") is None else f" (order is {pack['order']!r})"
        asked = " ".join(f"--theory {key}={EXAMPLES[key]}" for key in missing)
        raise UserError(f"the data pack does not say {', '.join(missing)}{told}: name them, as {asked}")
    return order, DEFAULTS | found


def _parse_parameter(key: str, given: object, where: str) -> float:
    try:
        value = float(str(given))
    except ValueError:
        value = float("nan")
    low, high = RANGES[key]
    if not low <= value <= high:
        raise UserError(f"{where}: {key}: got {given!r}; must be a positive number, {low:g} to {high:g}")
    return value


def _format_member(kind: str, replica: int | None, result: FitResult, values: Float64Array) -> str:
    """One member's file: knots in x and Q [GeV], PDG numbers, then x f, one row per (x, Q) with Q running fastest."""
    origin = "" if replica is None else f"FromMCReplica: {replica}\n"
    rows = np.repeat(_select_columns(values, PIDS), 2, axis=0)
    head = [_format_row(result.x), _format_row([result.q0, result.q0 * Q_STEP]), " ".join(map(str, PIDS))]
    return f"PdfType: {kind}\nFormat: lhagrid1\n{origin}---\n" + "\n".join([*head, *map(_format_row, rows)]) + "\n---\n"


def _select_columns(values: Float64Array, pids: Sequence[int]) -> Float64Array:
    """(X, pids) from (FLAVOURS, X), zero for a parton that the fit does not have."""
    index = {pid: FLAVOURS.index(flavour) for flavour, all_pids in PDG_IDS.items() for pid in all_pids}
    return np.stack([values[index[p]] if p in index else np.zeros_like(values[0]) for p in pids], axis=1)


def _format_row(values: Sequence[float] | Float64Array) -> str:
    return " ".join(f"{v:.16e}" for v in values)  # 17 digits: every bit comes back


def _write_folder(target: Path, files: Mapping[str, str]) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        for name, text in files.items():
            (temporary / name).write_text(text, encoding="utf-8")
            sync(temporary / name)
        sync(temporary)
        temporary.rename(target)
        sync(target.parent)
    except OSError as error:
        left = "it may not outlive a crash of the machine" if target.exists() else "nothing was left behind"
        raise StorageError(f"{target}: could not be written: {error.strerror}; {left}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
