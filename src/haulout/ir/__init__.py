"""The program: tables of NumPy columns, how they are built, edited, read, printed, stored and verified."""
