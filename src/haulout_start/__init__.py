"""The entry point of the `haulout` command: it handles a Ctrl-C during the first imports.

This is a separate package because an import of any module of `haulout` imports that package first.
"""

from __future__ import annotations

import os


def start() -> None:
    """Run the command line of `sys.argv` and end the process."""
    try:
        from haulout.cli.main import main
    except KeyboardInterrupt:
        os.write(2, b"interrupted\n")
        os._exit(130)
    main()
