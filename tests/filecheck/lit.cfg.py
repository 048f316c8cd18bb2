"""`lit tests/filecheck` runs what pytest runs; `haulout` and `filecheck` are found beside this Python."""

import os
import sys
from pathlib import Path
from typing import Any

import lit.formats

config: Any = globals()["config"]
config.name = "haulout"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".bir"]
config.test_source_root = str(Path(__file__).parent)
config.environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), config.environment["PATH"]])
