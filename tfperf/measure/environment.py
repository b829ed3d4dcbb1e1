"""What a run was made on: versions, processor, memory, GPUs, settings; nothing that names a person, host or folder."""

import hashlib
import os
import platform
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("tensorflow", "keras", "numpy", "scipy", "h5py")
# Named one by one: TF_CONFIG lists hosts, and TF_VAR_, TF_TOKEN_ belong to another program, which keeps secrets there.
VARIABLES = re.compile(
    "TF_(AUTOTUNE|CPP|CPU|CUBLAS|CUDA|CUDNN|DETERMINISTIC|DISABLE|ENABLE|FORCE|GPU|NUM|USE|XLA)_.*|TF_DETERMINISTIC_OPS"
    "|XLA_.*|(OMP|MKL|OPENBLAS)_NUM_THREADS|OMP_(PROC_BIND|PLACES)|KMP_.*"
    "|CUDA_(VISIBLE_DEVICES|DEVICE_ORDER|LAUNCH_BLOCKING)|NVIDIA_TF32_OVERRIDE|KERAS_BACKEND|PYTHONHASHSEED"
)
ANY_PATH = re.compile(r"(?<![\w.])(~[\w.-]*|\.{1,2})?/[^\s,;:\"']*")
# lines of /proc/cpuinfo, on x86 and on ARM; beside them are clock rates and numbers of cores
CPU_KIND = re.compile(r"(vendor_id|cpu family|model|model name|stepping|flags|Features|CPU \w+)\s*:")
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def collect_environment() -> dict[str, Any]:
    """The machine and the software as JSON-able values, for environment.json; None where it could not be found out."""
    return {
        "versions": list_versions(),
        "platform": platform.platform(),
        "cpu": {"model": read_cpu_model(), "cores": count_cores()},
        "memory_bytes": read_memory_bytes(),
        "gpus": list_gpus(),
        "variables": {k: ANY_PATH.sub("<path>", v) for k, v in sorted(os.environ.items()) if VARIABLES.fullmatch(k)},
    }


def get_program_version() -> str:
    """Of tfperf, whose package imports, for its users, what measure may not."""
    return str(sys.modules["tfperf"].__dict__["__version__"])


def list_versions() -> dict[str, str | None]:
    """Version of each package that can change a result, without importing TensorFlow; None: not installed."""
    # looked up, not imported: the package's front offers `fit`, which lies above this module
    found = {"tfperf": get_program_version(), "python": platform.python_version()}
    return found | {p: get_package_version(p) for p in PACKAGES} | {"hdf5": get_hdf5_version()}


def digest_program() -> str:
    """A digest of the program's own files, as they are now: what is changed between versions changes it."""
    package, found = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        found.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def get_package_version(name: str) -> str | None:
    """Installed version of a distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def get_hdf5_version() -> str | None:
    """Version of the HDF5 library inside h5py, or None."""
    try:
        import h5py
    except ImportError:
        return None
    return str(h5py.version.hdf5_version)


def read_cpu_model() -> str:
    """The processor's name as its maker gives it; the architecture where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def read_cpu_features() -> tuple[str, ...]:
    """All that the system tells of what the processor can do, as lines that do not change; empty where it does not."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ()
    return tuple(sorted({" ".join(line.split()) for line in lines if CPU_KIND.match(line)}))


def count_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_memory_bytes() -> int:
    """Physical memory, or the container's limit where that is lower."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *_read_cgroup_limits()])


def read_available_bytes() -> int | None:
    """Memory that can be had without swapping (Linux's MemAvailable, at most the container's limit); None elsewhere."""
    kilobytes = _read_proc_kilobytes("/proc/meminfo", "MemAvailable")
    return None if kilobytes is None else min([kilobytes * 1024, *_read_cgroup_limits()])


def measure_peak_rss_bytes() -> int:
    """Most memory that this process has held at once.

    VmHWM rather than ru_maxrss where there is one: across fork and exec the latter keeps the parent's peak.
    """
    kilobytes = _read_proc_kilobytes("/proc/self/status", "VmHWM")
    if kilobytes is not None:
        return kilobytes * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def read_rss_bytes() -> int | None:
    """Memory that this process holds now; None where the system does not tell."""
    kilobytes = _read_proc_kilobytes("/proc/self/status", "VmRSS")
    return None if kilobytes is None else kilobytes * 1024


def measure_peak_address_bytes() -> int | None:
    """Most address space that this process has had, in memory or not; None where the system does not tell."""
    kilobytes = _read_proc_kilobytes("/proc/self/status", "VmPeak")
    return None if kilobytes is None else kilobytes * 1024


def reset_peak_rss() -> bool:
    """Count `measure_peak_rss_bytes` from now on; False where the system cannot, so that it counts from the start."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def list_gpus() -> list[dict[str, Any]]:
    """Name, driver and memory of each NVIDIA GPU; empty without NVML, which also means without a driver."""
    try:
        with open_nvml() as library:
            return _list_nvml_gpus(library)
    except Exception:  # NVMLError is only importable where pynvml is
        return []


@contextmanager
def open_nvml() -> Iterator[Any]:
    """NVML started, stopped on leaving; raises ImportError or pynvml.NVMLError where there is none."""
    import pynvml

    pynvml.nvmlInit()
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _list_nvml_gpus(library: Any) -> list[dict[str, Any]]:
    driver = library.nvmlSystemGetDriverVersion()
    handles = [library.nvmlDeviceGetHandleByIndex(i) for i in range(library.nvmlDeviceGetCount())]
    return [
        {
            "name": library.nvmlDeviceGetName(h),
            "driver": driver,
            "memory_bytes": library.nvmlDeviceGetMemoryInfo(h).total,
        }
        for h in handles
    ]


def _read_cgroup_limits() -> list[int]:
    found = []
    for path in CGROUP_LIMITS:
        try:
            found.append(int(path.read_text()))  # "max" (no limit) is no int
        except (OSError, ValueError):
            continue
    return found


def _read_proc_kilobytes(path: str, key: str) -> int | None:
    try:
        text = Path(path).read_text()
    except OSError:
        return None
    found = re.search(rf"^{key}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) if found else None
