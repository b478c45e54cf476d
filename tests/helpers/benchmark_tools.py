"""Results of benchmarks, as `benchmarks/results.json` has them, and runs of their programs."""

import os
import subprocess
import sys

from autograder.course.config import ROOT

STOCK = {"seconds": 40.0, "fixed": 8.0, "each": 4.0, "count": 8, "of_n": 808.0, "partial": []}
MEASURED = {
    "machine": {
        **dict.fromkeys(("cpu", "system", "python", "date"), "of this test"),
        **dict.fromkeys(("nbgrader", "nbconvert", "ipykernel", "ipython"), "1"),
        **dict.fromkeys(("numpy", "torch", "matplotlib", "sqlalchemy"), "2"),
        **{"cores": 2, "memory_gb": 8},
    },
    "class": {
        "01-qkv": {
            "mixed": {
                "n": 200,
                "ours_seconds": [21.0, 20.0, 25.0],
                "load": 0.5,
                "stock": STOCK,
                "parallel": {"2": STOCK | {"of_n": 450.0}, "4": STOCK | {"of_n": 420.0}},
                "best": "4",
            }
        }
    },
    "phases": {
        "01-qkv": {
            "mixed": {"submissions": 4, "wall": 90.0, "phases": {"guest cells": 30.5, "page": 12.0}}
        },
        "02-scaling": {
            "mixed": {"submissions": 4, "wall": 80.0, "phases": {"page": 40.0, "wire": 1.0}}
        },
    },
    "check": {"01-qkv": {"seconds": [1.5, 1.25, 9.0], "phases": None}},
    "batch": {
        "exercise": "01-qkv",
        "n": 1000,
        "jobs": {
            "2": {
                "seconds": 100.0,
                "tenths": [10.0, *[9.0] * 9],
                "first_mb": 700.0,
                "last_mb": None,
                "peak_mb": 800.0,
                "sandboxes": 1,
            }
        },
    },
    "kill": {
        "exercise": "01-qkv",
        "n": 1000,
        "kills": [{"graded": 300}, {"graded": 650}],
        "same_grades": 5000,
        "left_behind": 0,
    },
    "plugin": {"exercise": "01-qkv", "n": 200, "seconds": 50.0, "each": 0.25, "sandboxes": 1},
    "database": {
        "exercise": "01-qkv",
        "n": 100,
        "jobs": 2,
        "version": "15.18 (Debian)",
        "load": 0.5,
        "sqlite": [{"seconds": seconds, "writing_ms": 4.0} for seconds in (8.0, 10.0, 30.0)],
        "server": [{"seconds": seconds, "writing_ms": 6.25} for seconds in (9.0, 11.0, 12.0)],
    },
    "thousand": {
        "students": 1000,
        "exercises": ["01-qkv", "02-scaling"],
        "submissions": 2000,
        "jobs": 2,
        "date": "of this test",
        "load": 0.2,
        "commands": {
            "grade": {"seconds": 200.0, "main_mb": 150.0, "peak_mb": 800.0},
            "report": {"seconds": 8.0, "main_mb": 300.0, "peak_mb": 300.0},
        },
        "sizes_mb": {"gradebook.db": 6.0, "report.html": 0.5},
        "browser": {
            "first_text": 0.2,
            "first_screen": 0.5,
            "search": 0.02,
            "rows": 300,
            "elements": 9000,
        },
    },
}


def python(*arguments, status=0, folder=ROOT / "benchmarks", **environment):
    """Run Python with arguments, in `benchmarks/`; return what it printed.

    Triton compiles kernels there, unless `environment` has TRITON_INTERPRET.
    """
    known = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-W", "ignore", *map(str, arguments)]
    result = subprocess.run(
        command, cwd=folder, env=known | environment, capture_output=True, text=True, timeout=600
    )
    assert result.returncode == status, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout
