"""How the tools start JAX: only in a child process, with XLA's flags in its environment.

XLA reads its flags once, when its library is loaded, and then they hold for the life of the process.  The
number of (forced) host devices is such a flag.  So a tool that wants N cores starts itself again with the
environment below; the parent never imports JAX.

`xla_allow_excess_precision=false` makes bf16 arithmetic round after every instruction, as the HLO text says.
`xla_cpu_max_isa` keeps the order of sums in vectorised reductions the same on newer x86 machines.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["environment", "run_again"]


def environment(cores: int, dump: Path | None = None) -> dict[str, str]:
    """The environment of a JAX child with `cores` CPU devices; `dump` is where passes' HLO text goes."""
    flags = [f"--xla_force_host_platform_device_count={cores}", "--xla_allow_excess_precision=false"]
    if platform.machine() in ("x86_64", "AMD64"):
        flags.append("--xla_cpu_max_isa=AVX2")
    if dump is not None:
        flags += [f"--xla_dump_to={dump}", "--xla_dump_hlo_pass_re=spmd.*", "--xla_dump_hlo_as_text"]
    return os.environ | {"XLA_FLAGS": " ".join(flags), "JAX_PLATFORMS": "cpu"}


def run_again(script: Path, arguments: Sequence[str], cores: int, dump: Path | None = None) -> int:
    """Run `script` in a JAX child; its output passes through.  Returns the exit status."""
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(command, env=environment(cores, dump), check=False).returncode
