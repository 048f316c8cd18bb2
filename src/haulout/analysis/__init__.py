"""Facts about a program, as columns indexed by the ids of its tables. Passes use them; the checker does not."""
