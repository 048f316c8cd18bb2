"""What a first run costs: CPU seconds of `haulout compile` with an empty kernel cache, and with a full one.

    python benchmarks/cold_start.py PROGRAM [PROGRAM ...]

Each run is a process of its own. The last columns are the kernels that the cold run compiled, and the cold run's CPU
seconds over those of the warm one; a program whose work is too small for kernels compiles none.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path


def cpu_seconds(program: str, folder: Path) -> float:
    """User and system time of one compile with the kernel cache of `folder`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "haulout", "compile", program, "-q", "-o", str(folder / "out")],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "kernels")},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    options = parser.parse_args()
    print(f"{'CPU seconds':<40}{'cold':>8}{'warm':>8}{'kernels':>10}{'ratio':>8}")
    for program in options.programs:
        with tempfile.TemporaryDirectory(prefix="haulout-") as name:
            folder = Path(name)
            cold = cpu_seconds(program, folder)
            kernels = len({path.stem for path in (folder / "kernels").rglob("*.nbi")})
            warm = min(cpu_seconds(program, folder) for _ in range(2))
        print(f"{Path(program).name:<40}{cold:>8.1f}{warm:>8.1f}{kernels:>10}{cold / warm:>8.1f}")


if __name__ == "__main__":
    main()
