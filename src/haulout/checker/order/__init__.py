"""What order a program guarantees: the fused graph, semaphores, barriers, `sendrecv`."""
