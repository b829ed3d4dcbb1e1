"""How busy the device is over time while a training takes its steps as they are: a short recording of them."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tfperf.errors import TraceError
from tfperf.measure.quiet import drop_native_logs
from tfperf.trace.attribution import read_attribution
from tfperf.trace.capture import capture
from tfperf.trace.device_use import make_use_record
from tfperf.train.window import configure_capture
from tfperf.workloads.input_trial import InputTrial


def measure_device(trial: InputTrial, steps: int) -> dict[str, Any]:
    """The record of so many steps in one call, which TensorFlow's profiler slows down: what tells a device's use.

    `devices`: of each its name, the recorded seconds, `busy`, `copies_alone` and `copies` as of `DeviceUse`, and
    `shares`: busy in equal parts of the time; of a machine without accelerators that of its processor. `nvml`: what the
    GPUs' driver says of their utilisation, as an aside. `unknown`: why there are none of these, else None. The model's
    state is put back.
    """
    with TemporaryDirectory() as folder:
        try:
            with drop_native_logs(), capture(folder, steps=1, skip=0, steps_per_call=None) as recording:
                configure_capture(recording, (), 1, "card")
                with recording.step(0):
                    trial.take("both", steps)
            found = read_attribution(Path(folder))
        except TraceError as error:
            return {"devices": [], "nvml": [], "unknown": str(error)}
        finally:
            trial.put_back()
    uses = [make_use_record(use) for use in found.device_use]
    return {"devices": uses, "nvml": list(found.notes.utilisation), "unknown": None}
