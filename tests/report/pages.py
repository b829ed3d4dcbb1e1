"""Every page that tfperf writes, made up; what it shows may hold a text in each place that takes one."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

from tests.make_result import make_result
from tests.report.input_records import make_decoding_report, make_problem
from tests.report.prediction_records import make_log, make_report
from tests.study.sweep_records import phases
from tests.trace.profiles import us, write
from tests.workloads.translate.test_report import made_up
from tfperf.report.input import conclude
from tfperf.report.input_page import render_input
from tfperf.report.placements_page import render_placements_page
from tfperf.report.prediction_page import render_prediction
from tfperf.report.profile import make_profile_record, merge_records
from tfperf.report.profile_page import render_profile_page
from tfperf.results.placements import Estimate, PlacementRow
from tfperf.trace.attribution import Attribution, read_attribution
from tfperf.workloads.pdf.report import html
from tfperf.workloads.translate import report as translation

LONG = "while/body/_1/gradient_tape/while/attention_decoder/lstm_cell/MatMul_1/ReadVariableOp:MatMul"
TRANSLATION = {
    "scores": {"greedy": {"bleu": 12.3, "chrf": 33.2}, "beam": {"bleu": 13.3, "chrf": 34.2}},
    "signatures": {"bleu": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1"},
    "samples": [
        {"source": "Das Fenster ist zu.", "reference": "The window /usr/share/locale/de.", "translation": "The"}
    ],
    "loss": {"training_first": 9.1, "training_last": 2.2, "validation_best": 2.9, "best_step": 900},
    "steps": 950, "words_per_second": 11233.2, "seconds": {"data": 1.25, "train": 100.0, "total": 140.0},
    "ms_per_step": {"median": 15.1, "q1": 14.1, "q3": 16.2}, "peak_rss_bytes": 1.2e9,
    "data": {"pairs": {"training": 12000}, "vocabulary": {"source": 8000}, "buckets": [10, 20], "padding_share": 0.2},
    "placement": {"engine": "towers", "devices": 2, "variables": "mirrored", "merge": "summed on one device a variable",
                  "bytes": {"CPU:0": 12e6}, "where": {"source_embedding/embeddings": "CPU:0"}},
    "engine": {"steps_per_call": 10, "precision": "float32"}, "versions": {"tensorflow": "2.21.0"},
}  # fmt: skip


def plant(value, text):
    """The value with the text behind each string, and as one more key of each mapping."""
    if isinstance(value, str):
        return value + text
    if isinstance(value, dict):
        planted = {key: plant(one, text) for key, one in value.items()}
        return planted | ({text: next(iter(planted.values()))} if text and planted else {})
    if isinstance(value, list | tuple):
        return type(value)(plant(one, text) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: plant(getattr(value, f.name), text) for f in fields(value)})
    return value


def _environment(folder, text):
    (folder / "environment.json").write_text(f'{{"cpu": "AMD{text}"}}', errors="replace")
    (folder / "card.yaml").write_text(f"title: a card{text}\n" + "x" * 300, errors="replace")


def fit(folder, text=""):
    _environment(folder, text)
    result = make_result(replicas=4, sets=2, failed=1, title="A fit")
    closure = {"closure": {"level": 2, "law": "toy", "chi2_to_truth_per_point": 0.02}}
    statuses = tuple(s if s in ("stopped", "max_steps") else s + text for s in result.replicas.status)
    return html.render_html(folder, replace(
        result, title=result.title + text, summary=plant(result.summary | closure, text),
        replicas=replace(result.replicas, status=statuses),
        datasets=tuple(replace(d, name=d.name + text, label=d.label + text, experiment=d.experiment + text)
                       for d in result.datasets),
    ))  # fmt: skip


def translated(folder, text=""):
    _environment(folder, text)
    return translation.render_html(folder, replace(made_up(**plant(TRANSLATION, text)), title="A translation" + text))


def profile_parts(folder, text="") -> tuple[Attribution, dict]:
    """Attribution and record of a profile."""
    python = [("train", 200 * i, 150, {"step_num": i}) for i in range(3)]
    main = [(name, 200 * i + 50 * j + 10, 30) for i in range(3) for j, name in enumerate(("dense/MatMul:MatMul", LONG))]
    found = read_attribution(write(folder / "vm.xplane.pb", {"/host:CPU": {"python": us(*python), "main": us(*main)}}))
    record = merge_records([make_profile_record(found)]) | {
        "marks": "guessed from gaps",
        "problems": ["part of the profile is missing"],
    }
    record["ledger"] = [{"kind": "trace", "function": "train_step", "seconds": 1.25, "cause": "an argument is new"}]
    record["findings"] = [{
        "rule": "input", "what": "steps wait for input", "ms": 2.0, "gain_ms": 1.5, "bound_ms": 2.0, "share": 0.3,
        "change": "raise data.workers",
    }]  # fmt: skip
    record["transfers"] = [{"device": "GPU", "direction": "to", "mbyte": 1.5, "ms": 2.5, "gbyte_per_second": 0.6}]
    for key in ("marks", "problems", "constant"):
        record[key] = plant(record[key], text)
    for key in ("ledger", "findings", "transfers", "operations", "layers"):  # their keys are the columns of files
        rows = record[key]
        record[key] = [{name: v if name == "rule" else plant(v, text) for name, v in row.items()} for row in rows]
    record["devices"] = {name + text: device for name, device in record["devices"].items()}
    timeline = replace(found.timeline, lanes=plant(found.timeline.lanes, text), names=plant(found.timeline.names, text))
    keyed: dict[str, Any] = {
        key: {name + text: value for name, value in getattr(found, key).items()} for key in ("busy", "any")
    }
    return replace(found, timeline=timeline, **keyed), record


def profile(folder, text=""):
    return render_profile_page(*profile_parts(folder, text), "A profile" + text)


def placement_rows(text=""):
    told = phases(4)
    bound = {"bound_ms": 2.19, "sent_bytes": 2.3e7, "computation_ms": 2.1, "chain_ms": 1.9, "sent_ms": None}
    row = PlacementRow(
        values={"placement.preset": "mirrored"}, placement="placement.variables mirrored", repeats=3, devices=4,
        batch=16, pairs=64, columns=23.5, words=1500.0, proved=True, group="weak a", contest="weak a 4",
        errors=("killed by the system: out of memory",), logical=False, scaling="weak", repeats_needed=12,
        pairs_per_second=Estimate(1400.0, 1300.0, 1500.0, "pairs"), efficiency=Estimate(0.27, 0.19, 0.38),
        against_fastest=Estimate(1.0, 1.0, 1.0), words_per_second=Estimate(32669.0, 28377.0, 36960.0),
        ms_per_step=Estimate(15.4, 11.4, 19.5), speedup=Estimate(1.09, 0.763, 1.54), against_best=Estimate(1.0),
        padding_share=0.23, straggler_waste=0.1, merge="summed on one device", kernels={"lstm": "plain"},
        phases=told,
        places={kind: {f"CPU:{i}": 13 for i in range(4)} for kind in ("pass", "look-up", "merge", "update")},
        bound=bound | {"update_ms": 0.1}, growth=1.0,
        memory={"kept_bytes": {"host": 1.08e7}, "peak_bytes": {"device:0": 3e6}, "peak_rss_bytes": 8e8},
    )  # fmt: skip
    # figures of single devices have names of their own: there is no text for those of phases
    return [plant(row, text), plant(replace(row, devices=1, contest="weak a 1"), text)]


def placements(folder, text=""):
    return render_placements_page("Placements" + text, placement_rows(text), "drift: none seen" + text)


def study_input(folder, text=""):
    """An input study; names of stages come from the user's code."""
    report = make_decoding_report(random_at=2)
    source = report["as_it_is"]["source"]
    for stage in source["pipeline"]["stages"]:
        stage["name"] = (stage["name"] or stage["kind"]) + text
    source["problems"] = [make_problem("small_shuffle", 0, share=None, elements=800.0)]
    report["title"] += text
    conclude(report)
    return render_input(report | {"applied": {"changed": [{"key": f"data.arguments{text}", "after": f"4{text}"}]}})


def prediction(folder, text=""):
    """Names of devices come from cards; messages of failures and faults from the user's code."""
    _environment(folder, text)
    log = make_log(6, 3000.0)
    log.add_fault(
        12.0, "worker 0 on gpu:0: crashed, at record 3 of window 0 (its process was killed by signal 9)" + text
    )
    report = make_report(folder, workers=6, devices=2, seconds=3050.0, log=log, failed=3, measured=True, lives=2)
    for one in report["workers"]:
        one.update({key: one[key] + text for key in ("name", "device")})
    for one in report["first"]:
        one.update(message=f"ValueError: record of /data/part-{LONG} has no rows{text}", reason=one["reason"] + text)
    report["reasons"] = {name + text: count for name, count in report["reasons"].items()}
    return render_prediction(folder, report | {"title": "A prediction" + text})


PAGES = {
    "fit": fit, "translation": translated, "profile": profile, "placements": placements, "input": study_input,
    "prediction": prediction,
}  # fmt: skip
