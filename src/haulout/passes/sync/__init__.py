"""The parts of `lower_sync` and `lower_barriers`: reduce edges, share semaphores, count signals, emit barriers."""
