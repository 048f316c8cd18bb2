"""The order that a program guarantees: the fused graph, barriers, `sendrecv`, semaphores, happens-before."""
