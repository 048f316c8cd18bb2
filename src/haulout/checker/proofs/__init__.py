"""The proofs over one schedule: conflicts, storage, undefined values, source order."""
