"""What is proved over one schedule: conflicts, storage, values, the order of the source."""
