"""The machine and the software that a measurement holds for."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from .._version import __version__
from ..turning import kernel

PACKAGES = ("torch", "numpy", "transformers", "rotary-embedding-torch")
SETTINGS = ("OMP_", "GOMP_", "KMP_", "MKL_", "MALLOC_", "ROPEWALK_")
CPU_INFO = Path("/proc/cpuinfo")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def describe() -> dict[str, Any]:
    """Give what decides speed, as plain values.

    Returns:
        cpu (its name), cpus (that this process may use), threads (of torch, which the kernel shares), load (mean of
        the last minute, None where the system has none), huge_pages (the kernel's mode: always, madvise or never),
        kernel (which variant, or why none), settings (environment variables about threads and memory), preloaded
        libraries by name, platform, python and versions.
    """
    return {
        "cpu": cpu_name(),
        "cpus": _cpus(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "huge_pages": huge_pages(),
        "kernel": kernel.why,
        "settings": {name: value for name, value in sorted(os.environ.items()) if name.startswith(SETTINGS)},
        "preloaded": [Path(one).name for one in os.environ.get("LD_PRELOAD", "").replace(":", " ").split()],
        "platform": f"{sys.platform} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {"ropewalk": __version__, **{name: found for name in PACKAGES if (found := _installed(name))}},
    }


def cpu_name() -> str:
    """Give the processor's name, or at least its kind."""
    if CPU_INFO.is_file():
        for line in CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def huge_pages() -> str | None:
    """Give the mode of transparent huge pages, the word that the kernel puts in brackets; None where there are none."""
    try:
        _, _, behind = HUGE_PAGES.read_text(encoding="ascii").partition("[")
    except (OSError, UnicodeDecodeError):
        return None
    return behind.partition("]")[0] or None


def _cpus() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
