"""`lit tests/filecheck` runs what pytest runs; `haulout` and `filecheck` are found beside this Python."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import lit.formats

config: Any = globals()["config"]
config.name = "haulout"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".bir"]
config.test_source_root = str(Path(__file__).parent)
# Scratch files and lit's own records of times stay out of the source.
config.test_exec_root = str(Path(tempfile.gettempdir()) / f"haulout-lit-{os.getuid()}")
Path(config.test_exec_root).mkdir(exist_ok=True)
config.environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), config.environment["PATH"]])
if "PYTHONPATH" in os.environ:
    config.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
