"""How each HLO operation becomes instructions of the program: one file a family, each with its table of rules."""
