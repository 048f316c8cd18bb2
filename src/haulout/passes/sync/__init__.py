"""The parts of `lower_sync`: reduce the edges, share semaphores, count signals, and read the result back."""
