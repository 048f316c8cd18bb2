"""The `haulout` command from its first moment: imports take a while, and Ctrl-C may come meanwhile.

This stands outside of `haulout` because importing anything of a package imports the package first.
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
