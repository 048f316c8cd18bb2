"""Facts about a program, as side columns under the ids of its tables. Passes use them; the checker does not."""
