"""Front ends: what turns a source into a program."""
