"""The least time that a step of a placement can take on the machine at hand."""

import time
from typing import Any

import numpy as np
import tensorflow as tf

from tfperf.measure.environment import count_cores
from tfperf.measure.roofline import GIGA, measure_ceilings, measure_tensorflow
from tfperf.measure.turns import measure_turn_seconds
from tfperf.place.devices import Devices
from tfperf.place.policy import resolve_devices
from tfperf.place.state import count_bytes
from tfperf.place.work import VariableBytes, compute_bound_ms, count_sent_bytes, count_update_bytes
from tfperf.workloads.translate.arithmetic import count_chain_turns, count_pass_flops
from tfperf.workloads.translate.batches import BatchPlan
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.trainable import TranslationEngine

COPIED = 2**26  # bytes, to measure what devices send each other
COPIES = 10


def estimate_bound(card: TranslationCard, engine: TranslationEngine, plan: BatchPlan, kernel: str) -> dict[str, Any]:
    """Work of a step, the machine's ceilings and the least milliseconds of each term; None: not measured.

    kernel: by which LSTM layers are computed: plain, xla, block or cudnn. Logical CPUs share the cores: all passes
    together run at the speed of all cores, no more chains go on at a time than there are cores, nothing has to be sent.
    The block kernel takes the positions of a layer without a launch for each, as XLA's loop of the same products does;
    cuDNN does, too, but nothing here measures it.
    """
    devices, rows = engine.devices, engine.model.rows
    source, target = plan.lengths.mean(axis=(0, 1)).tolist()
    batch = plan.rows.shape[2]
    flops = count_pass_flops(card.model, rows, batch, source, target - 1)
    shares, optimizer = _list_shares(card, engine, batch * source, batch * (target - 1)), card.train.optimizer.name
    updated = count_update_bytes(shares, optimizer)
    sent = count_sent_bytes(shares, card.placement, devices.each, optimizer)
    machine = (measure_ceilings if devices.logical else measure_tensorflow)(count_cores(), card.engine.precision)
    link = None if devices.logical else measure_link(devices)
    turn = None if kernel == "cudnn" else 1e3 * measure_turn_seconds(
        batch, card.model.units, card.engine.precision, devices.mine[0][1], kernel != "plain"
    )  # fmt: skip
    turns = count_chain_turns(card.model.layers, source, target - 1)
    at_once = max(1.0, len(devices) / count_cores()) if devices.logical else 1.0
    terms = {
        "computation_ms": 1e3 * flops * (len(devices) if devices.logical else 1) / machine.gflops / GIGA,
        "update_ms": 1e3 * updated / (1 if devices.logical else len(devices)) / machine.bandwidth_gb_s / GIGA,
        "sent_ms": None if link is None else 1e3 * sent / link / GIGA,
        "chain_ms": None if turn is None else turns * turn * at_once,
    }  # fmt: skip
    return {
        "flops_per_device": flops, "updated_bytes": updated, "sent_bytes": sent, "gflops": machine.gflops,
        "bandwidth_gb_s": machine.bandwidth_gb_s, "link_gb_s": link, "chain_steps": turns, "turn_ms": turn,
        "turn": [batch, card.model.units, card.engine.precision, kernel], **terms, "bound_ms": compute_bound_ms(terms),
    }  # fmt: skip


def _list_shares(card: TranslationCard, engine: TranslationEngine, source: float, target: float) -> list[VariableBytes]:
    """Each variable's home and bytes. Of tables a device reads the rows of its source and target positions."""
    model, devices = engine.model, engine.devices
    weights, tables = ({v.path: count_bytes(v) for v in variables} for variables in (model.weights, model.embeddings))
    homes = resolve_devices(card.placement, devices.host, devices.each, weights, tables)
    shares = [VariableBytes(homes[name], n, n, n) for name, n in weights.items()]
    row = card.model.units * np.dtype(card.engine.precision).itemsize
    for (name, n), positions in zip(tables.items(), (source, target), strict=True):
        looked_up = positions * row
        gradient = n if card.engine.embedding_gradients == "dense" else looked_up
        shares.append(VariableBytes(homes[name], n, looked_up, gradient))
    return shares


def measure_link(devices: Devices) -> float:
    """GB/s of copies to the first device: from the second one, or from the host where there is no second."""
    begin = devices.each[1] if len(devices) > 1 else devices.host
    with tf.device(begin):
        payload = tf.zeros([COPIED // 4])
    best = float("inf")
    for _ in range(COPIES):
        start = time.perf_counter()
        with tf.device(devices.each[0]):
            copy = tf.identity(payload)
            float(copy[0])  # waits for the copy
        best = min(best, time.perf_counter() - start)
    return COPIED / best / GIGA
