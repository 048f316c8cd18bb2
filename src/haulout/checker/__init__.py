"""The independent checker: recomputes order, barriers and addresses from the program alone and proves it, or says
why.

It imports nothing of the analyses and passes that make programs, so that a mistake there is not made twice.
"""

from haulout.checker.driver import check_program
from haulout.checker.proofs.reordering import check_reordered

__all__ = ["check_program", "check_reordered"]
