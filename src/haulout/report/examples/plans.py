"""Examples of what the planner's validator finds, and of a defect of a pass, as calls of the library."""

from __future__ import annotations

from haulout.report.examples.example import Example

COMMAND = "python example.py"


def judged(finding: str, rules: str, offsets: str, pools: str = "", imports: str = "Problem, violations") -> Example:
    """What the validator says about a placement of two buffers of 48 bytes that live at one time."""
    text = (
        "import numpy as np\n\n"
        f"from haulout.packing import {imports}\n\n"
        f"problem = Problem.of([0, 0], [2, 2], [48, 48], [16, 16]{rules})\n"
        f"for finding in violations(problem, np.array({offsets}){pools}):\n"
        "    print(finding)\n"
    )
    return Example({"example.py": text}, COMMAND, finding)


PLANS: dict[str, Example] = {
    "misaligned-storage": judged("error[misaligned-storage]: buffer 1 at 56 is not aligned to 16", "", "[0, 56]"),
    "moved-pin": judged("error[moved-pin]: buffer 1 is pinned at 64 but placed at 48", ", pinned=[0, 64]", "[0, 48]"),
    "crossed-segment": judged(
        "error[crossed-segment]: buffer 1 at [48, 96) crosses a multiple of 64", ", segment=64", "[0, 48]"
    ),
    "wrong-pool": judged(
        "error[wrong-pool]: buffer 1 is in pool 1, there are 1", "", "[0, 48]", ", pool=np.array([0, 1])"
    ),
    "split-alias": judged(
        "error[split-alias]: buffers 0 and 1 are aliases but not at one place",
        ", rules=Rules(aliases=((0, 1),))",
        "[0, 48]",
        imports="Problem, Rules, violations",
    ),
    "unequal-offsets": judged(
        "error[unequal-offsets]: buffers 0 and 1 are symmetric but at 0 and 48",
        ', rules=Rules(pools=(Pool("a"), Pool("b")), symmetric=((0, 1),))',
        "[0, 48]",
        ", pool=np.array([0, 1])",
        "Pool, Problem, Rules, violations",
    ),
    "out-of-memory": Example(
        {
            "example.py": """\
from haulout.cli.status import guarded


@guarded
def command() -> int:
    bytearray(2**62)
    return 0


command()
"""
        },
        COMMAND,
        "error[out-of-memory]: the machine has too little memory for this program",
    ),
    "internal-error": Example(
        {
            "example.py": '''\
from haulout import HauloutError
from haulout.ir.text import parse_bir
from haulout.passes.base import Pass, PassContext
from haulout.passes.manager import PassManager

TEXT = """bir 1
program "example" lnc=2
module @nc0 core=0 {
  func @main {
    block ^entry:
  }
}
module @nc1 core=1 {
  func @main {
    block ^entry:
  }
}
"""


class Broken(Pass):
    name = "broken"

    def run(self, program, context):
        return program.no_such_table


try:
    PassManager([Broken()]).run(parse_bir(TEXT), PassContext())
except HauloutError as error:
    print(error)
'''
        },
        COMMAND,
        "error[internal-error]: broken crashed: AttributeError: 'Program' object has no attribute 'no_such_table'",
    ),
}
