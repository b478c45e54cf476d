"""Clock, heat, power and throttling of the first visible GPU during a measurement, as nvidia-smi
reports them.
"""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

COLUMNS = ("clocks.sm", "temperature.gpu", "power.draw", "clocks_event_reasons.active")
# Bits of NVML's nvmlClocksEventReasons; the others have nothing to do with heat or power.
SLOWED = {
    0x4: "power cap",
    0x8: "hardware",
    0x20: "software, heat",
    0x40: "hardware, heat",
    0x80: "power brake",
}


@contextlib.contextmanager
def sample_conditions(wanted: bool = True) -> Iterator[dict[str, Any]]:
    """Yield a dict, and fill it as `summarize_samples` does when the context ends; it stays empty
    without nvidia-smi.
    """
    conditions: dict[str, Any] = {}
    if not wanted:
        yield conditions
        return
    # nvidia-smi counts all GPUs of the machine, torch only those that are visible to it.
    device = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"
    query = f"--query-gpu={','.join(COLUMNS)}"
    command = ["nvidia-smi", f"--id={device}", query, "--format=csv,noheader,nounits", "--loop=1"]
    with tempfile.TemporaryFile("w+") as file:
        watcher = None
        with contextlib.suppress(OSError):
            watcher = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        try:
            yield conditions
        finally:
            if watcher:
                watcher.kill()
                watcher.wait()
                file.seek(0)
                conditions.update(summarize_samples(file.read().splitlines()) or {})


def summarize_samples(lines: Iterable[str]) -> dict[str, Any] | None:
    """Return the clock from and to, °C and W at most, and what slowed the device; None if no
    line says so.
    """
    rows = []
    for line in lines:
        with contextlib.suppress(ValueError):
            clock, heat, power, reasons = (word.strip() for word in line.split(","))
            rows.append((int(clock), int(heat), float(power), int(reasons, 16)))
    if not rows:
        return None
    clocks, heats, powers, reasons_by_row = zip(*rows, strict=True)
    slowed = 0
    for reasons in reasons_by_row:
        slowed |= reasons
    return {
        "sm_mhz": [min(clocks), max(clocks)],
        "celsius": max(heats),
        "watts": max(powers),
        "slowed_by": [name for bit, name in SLOWED.items() if slowed & bit],
    }
