"""JAX programs for several cores: `lower` a function to a program, or `partition` it to HLO text. Extra: `jax`."""

from haulout.frontends.hlo.from_jax import lower, partition

__all__ = ["lower", "partition"]
