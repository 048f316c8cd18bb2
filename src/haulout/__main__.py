"""`python -m haulout`: the command."""

from haulout.cli.main import main

if __name__ == "__main__":
    main()
