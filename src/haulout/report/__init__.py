"""What people and programs read after a run: the report model and the tables on the terminal."""
