"""`tfperf import-nnpdf`: PineAPPL FK tables and the measurements of nnpdf-data become a data pack.

N points, X grid nodes, F flavours, C luminosity channels.
"""

import importlib.metadata
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tfperf.arrays import Float64Array, Int64Array
from tfperf.errors import UserError
from tfperf.workloads.pdf.data import commondata, fields, fktables
from tfperf.workloads.pdf.data.cfactors import (
    CorrectionFactor,
    add_error,
    combine_errors,
    find_factor,
    find_relative_errors,
    multiply_table,
    predict_toy,
    read_factor,
)
from tfperf.workloads.pdf.data.commondata import KinematicCuts, import_optional
from tfperf.workloads.pdf.data.fktables import FLAVOURS, FkTable, read_table
from tfperf.workloads.pdf.data.pack import OPERATIONS, POSITIVITY
from tfperf.workloads.pdf.data.write import Attribute, StoredSet, write_pack

ORDERS = ("LO", "NLO", "NNLO", "N3LO")  # by PTO of a theory card
MASSES = {"mc": "mc", "mb": "mb", "mt": "mt", "mz": "MZ"}  # attributes of a pack, keys of a theory card
PHOTON = 0  # the one flavour index that tables may leave unused
SUFFIX = ".pineappl.lz4"


@dataclass(frozen=True)
class _Set:
    """One set to import: what nnpdf-data says of it, and the files of its tables by operand."""

    record: Any
    operation: str
    operands: tuple[tuple[Path, ...], ...]
    factors: tuple[str, ...] = ()  # names of correction factors, of all its tables

    @property
    def files(self) -> Iterator[Path]:
        return (path for operand in self.operands for path in operand)


def import_nnpdf(
    tables: Path, sets: Sequence[str], output: Path, cuts: KinematicCuts | None = None, drop_photon: bool = False
) -> Path:
    """Write the pack `output` from the FK tables NAME.pineappl.lz4 in the folder `tables`; returns `output`.

    `sets` are names of nnpdf-data: SET_OBSERVABLE or SET_OBSERVABLE:VARIANT, with correction factors as +QCD+NRM after
    it; positivity sets (NNPDF_POS...) among them become the pack's positivity sets. Which tables a set needs and how
    they are combined is in nnpdf-data. Correction factors ("K-factors", "cfactors") multiply the rows of the tables;
    their files CF_QCD_TABLE.dat lie in `tables`, in its folder `cfactor`, or in nnpdf-data. `cuts`: those of NNPDF4.0
    unless given. Fits have no photon: tables that need it are refused, unless drop_photon takes it as zero.

    Raises: UserError with all faults in the request: packages, names, tables that are missing or of another kind;
    PackError and StorageError as `write_pack`.
    """
    import_optional("nnpdf_data", "nnpdf-data")
    import_optional("pineappl", "pineappl")
    cuts = cuts or KinematicCuts()
    if output.exists():
        raise UserError(f"{output}: exists; name a new file or remove it")
    chosen = _select_sets(tables, sets)
    grid, q0, theory = _read_grid(chosen)
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("nnpdf-data", "pineappl"))
    attributes: dict[str, Attribute] = {
        "Q0": q0,
        "provenance": f"tfperf import-nnpdf with {versions}; each set's attribute `tables` names its FK tables",
        "q2min": cuts.q2_min,
        "w2min": cuts.w2_min,
        "q2min_charm": cuts.q2_min_charm,
        **theory,
    }
    folders = (tables, tables / "cfactor", Path(import_optional("nnpdf_data", "nnpdf-data").CFACTOR_PATH))
    write_pack(output, grid, attributes, (_build_stored_set(s, grid, cuts, folders, drop_photon) for s in chosen))
    return output


def _select_sets(tables: Path, names: Sequence[str]) -> list[_Set]:
    """The sets to import; UserError with the faults of all of them."""
    stems = sorted(_strip_suffix(path) for path in tables.glob(f"*{SUFFIX}"))
    chosen: list[_Set] = []
    faults = (
        [] if names else ["no set is named; allowed: names of nnpdf-data such as HERA_CC_318GEV_EM-SIGMARED:legacy"]
    )
    if not stems:
        faults.append(f"{tables}: no FK tables there; wanted files NAME{SUFFIX}")
    for name in names:
        try:
            found = _find(name, tables)
        except UserError as error:
            faults += error.faults
            continue
        if any(s.record.name == found.record.name for s in chosen):
            faults.append(f"{name}: named twice; once is allowed, with one variant")
        chosen.append(found)
        missing = [path for path in found.files if not path.is_file()] if stems else []
        faults += [f"{p}: missing, needed by {name}{fields.suggest_nearest(_strip_suffix(p), stems)}" for p in missing]
    if faults:
        raise UserError(*faults)
    return chosen


def _find(text: str, tables: Path) -> _Set:
    name, *factors = text.split("+")
    record = commondata.read_metadata(name)
    theory = record.theory
    if record.is_integrability:
        raise UserError(f"{name}: integrability is asked for in the runcard (`integrability`); leave the set out")
    if theory is None:
        raise UserError(f"{name}: nnpdf-data names no FK tables for it")
    operation = {"NONE": "NULL"}.get(theory.operation, theory.operation)
    allowed = ("NULL",) if record.is_positivity else tuple(OPERATIONS)
    if operation not in allowed or len(theory.FK_tables) != len(OPERATIONS[operation]):
        raise UserError(
            f"{name}: operation {operation} of {len(theory.FK_tables)} tables; allowed: "
            + ", ".join(f"{o} of {len(OPERATIONS[o])}" for o in allowed)
        )
    operands = tuple(tuple(tables / f"{t}{SUFFIX}" for t in o) for o in theory.FK_tables)
    return _Set(record, operation, operands, tuple(factors))


def _read_grid(chosen: Sequence[_Set]) -> tuple[Float64Array, float, Mapping[str, Attribute]]:
    """The nodes (X) of the pack, and the input scale (GeV) and parameters of the theory that all tables must share."""
    grids: list[Float64Array] = []
    scales: dict[Path, float] = {}
    theories: dict[Path, Mapping[str, Any]] = {}
    faults: list[str] = []
    for path in dict.fromkeys(path for s in chosen for path in s.files):
        try:
            table = read_table(path)
        except UserError as error:
            faults += error.faults
            continue
        grids.append(table.x)
        scales[path], theories[path] = table.q0, table.theory
    q0 = next(iter(scales.values()), 0.0)
    faults += [
        f"{p}: Q0 is {q} GeV; must be {q0}, as of the other tables" for p, q in scales.items() if abs(q - q0) > 1e-9
    ]
    found = {path: read_theory(one) for path, one in theories.items() if one}
    first = next(iter(found.values()), {})
    for path, parameters in found.items():
        faults += [
            f"{path}: {name} is {parameters.get(name)}; must be {value}, as of the other tables"
            for name, value in first.items() if parameters.get(name) != value
        ]  # fmt: skip
    if faults:
        raise UserError(*faults)
    cards = [json.dumps(one, sort_keys=True) for one in theories.values() if one]
    more: dict[str, Attribute] = {"theory": cards[0]} if cards else {}
    return fktables.merge_grids(grids), round(q0, 12), {**first, **more}


def read_theory(card: Mapping[str, Any]) -> dict[str, Attribute]:
    """Attributes of a pack from NNPDF's theory card: order, alphas_mz, masses [GeV] as far as it has them.

    The coupling is taken to be that at the Z mass where its reference scale is within 0.1 % of that.

    >>> read_theory({"PTO": 2, "alphas": 0.118, "Qref": 91.2, "MZ": 91.1876, "mc": 1.51, "mb": 4.92})
    {'order': 'NNLO', 'mc': 1.51, 'mb': 4.92, 'mz': 91.1876, 'alphas_mz': 0.118}
    """
    found: dict[str, Attribute] = {}
    if card.get("PTO") in range(len(ORDERS)):
        found["order"] = ORDERS[card["PTO"]]
    found.update({name: float(card[key]) for name, key in MASSES.items() if _is_number(card.get(key))})
    mz, scale = card.get("MZ", 91.1876), card.get("Qref")
    if _is_number(card.get("alphas")) and _is_number(scale) and _is_number(mz) and abs(scale / mz - 1) < 1e-3:
        found["alphas_mz"] = float(card["alphas"])
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _build_stored_set(
    chosen: _Set, grid: Float64Array, cuts: KinematicCuts, folders: Sequence[Path], drop_photon: bool
) -> StoredSet:
    """One set as it is stored, with the points that pass the cuts and have a prediction."""
    record, names = chosen.record, OPERATIONS[chosen.operation]
    read = [[_scale_table(read_table(path), record.theory) for path in operand] for operand in chosen.operands]
    factors = [[_read_factors(chosen, table, folders) for table in operand] for operand in read]
    read = [
        [multiply_table(table, mine) for table, mine in zip(operand, each, strict=True)]
        for operand, each in zip(read, factors, strict=True)
    ]
    numbers = {name: _number_rows(record, operand, name) for name, operand in zip(names, read, strict=True)}
    kin = commondata.read_kinematics(record)
    rows = commondata.find_passing_rows(record, kin, cuts)
    for given in numbers.values():
        rows = rows if given is None else rows[np.isin(rows, given)]
    if not len(rows):
        raise UserError(f"{record.name}: no point passes the cuts and has a prediction; widen the cuts or leave it out")
    axes, tables = _join_tables(record, read, grid, drop_photon)
    for name, table in zip(names, tables, strict=True):
        given = numbers[name]
        axes[name] = table if given is None else table[np.searchsorted(given, rows)]
    axes["kin"] = kin.values[rows]
    files = [_strip_suffix(path) for path in chosen.files]
    told = {f"cfactor {one.name} {one.table}": np.stack([one.values, one.uncertainties], axis=1)
            for operand in factors for each in operand for one in each}  # fmt: skip
    if record.is_positivity:
        return StoredSet(f"{POSITIVITY}/{record.name}", axes, {"tables": files, **told}, kin.columns)
    said = {**commondata.read_description(record), "operation": chosen.operation, "tables": files, "ndata": len(rows)}
    measured = commondata.read_measurements(record, rows)
    if chosen.factors:
        errors = [find_relative_errors(each) for each in factors]
        for place, given in enumerate(numbers[name] for name in names):
            errors[place] = errors[place] if given is None else errors[place][np.searchsorted(given, rows)]
        values = [predict_toy(axes, axes[name], grid) for name in names]
        relative = combine_errors(chosen.operation, values, errors)
        measured = add_error(measured, f"{record.name}_CFACTORS_UNCORR", relative * np.abs(measured["cv"]))
    return StoredSet(record.name, {**axes, **measured}, {**said, **told}, kin.columns)


def _read_factors(chosen: _Set, table: FkTable, folders: Sequence[Path]) -> list[CorrectionFactor]:
    stem = _strip_suffix(table.path)
    return [
        read_factor(find_factor(name, stem, folders), name, stem, len(table.values)) for name in chosen.factors
    ]  # fmt: skip


def _strip_suffix(path: Path) -> str:
    return path.name.removesuffix(SUFFIX)


def _scale_table(table: FkTable, theory: Any) -> FkTable:
    """The table in the unit of the measurement."""
    factor = theory.conversion_factor * (theory.normalization or {}).get(_strip_suffix(table.path), 1.0)
    return replace(table, values=table.values * factor)


def _number_rows(record: Any, operand: Sequence[FkTable], name: str) -> Int64Array | None:
    """Which points of the published set the rows of an operand are; None for one row that serves all points.

    The metadata's `shifts` are numbers of points without prediction before a table.
    """
    shifts = record.theory.shifts or {}
    start, each = 0, []
    for table in operand:
        start += shifts.get(_strip_suffix(table.path), 0)
        each.append(np.arange(start, start := start + len(table.values)))
    numbers = np.concatenate(each)
    if name == "fk_den" and len(numbers) == 1:
        return None
    if start > record.ndata or (not shifts and start != record.ndata):
        files = ", ".join(t.path.name for t in operand)
        raise UserError(
            f"{record.name}: {files}: have {len(numbers)} rows; the published set has {record.ndata} points"
        )
    return numbers


def _join_tables(
    record: Any, operands: Sequence[Sequence[FkTable]], grid: Float64Array, drop_photon: bool
) -> tuple[dict[str, Any], list[Float64Array]]:
    """`flav` or `channels`, and each operand on the pack's grid. Channels that no operand uses are left out.

    Of the flavours only the photon is left out, so that the sets of a pack have the same ones.
    """
    channels = [t.channels for operand in operands for t in operand]
    hadrons = {c.shape[1] for c in channels}
    if hadrons == {1}:
        flav = np.array(sorted(FLAVOURS.values()))
        tables = [fktables.join_deep_inelastic(operand, grid, flav) for operand in operands]
        keep = flav != PHOTON
        _refuse_photon(record, drop_photon, [t[:, :, ~keep] for t in tables])
        return {"flav": flav[keep]}, [t[:, :, keep] for t in tables]
    if hadrons == {2}:
        pairs = np.unique(np.sort(np.concatenate(channels), axis=1), axis=0)
        tables = [fktables.join_hadronic(operand, grid, pairs) for operand in operands]
        has_photon = (pairs == PHOTON).any(axis=1)
        _refuse_photon(record, drop_photon, [t[:, has_photon] for t in tables])
        keep = np.any([t.any(axis=(0, 2, 3)) for t in tables], axis=0) & ~has_photon
        return {"channels": pairs[keep]}, [t[:, keep] for t in tables]
    raise UserError(f"{record.name}: tables of {sorted(hadrons)} hadrons; allowed: all of one, or all of two")


def _refuse_photon(record: Any, drop_photon: bool, entries: Sequence[Float64Array]) -> None:
    """UserError where tables have entries of a photon density, which no fit has."""
    if not drop_photon and any(one.any() for one in entries):
        raise UserError(
            f"{record.name}: its tables need a photon density, and fits have none; --drop-photon takes it as zero"
        )
