"""The `haulout` command; one file a subcommand."""
