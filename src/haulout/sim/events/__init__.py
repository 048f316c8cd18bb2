"""What happens in a run and what must happen before it: events, semaphores, schedules, deadlocks."""
