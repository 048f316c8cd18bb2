"""The `haulout` command, with one file for each subcommand."""
