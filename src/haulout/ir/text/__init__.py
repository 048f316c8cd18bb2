"""The `.bir` text format: `parse_bir` and `print_bir` are inverse to each other."""

from haulout.ir.text.parser import parse_bir
from haulout.ir.text.printer import print_bir

__all__ = ["parse_bir", "print_bir"]
