"""The enumerations of `nki.isa`."""

from __future__ import annotations

import enum


class engine(enum.Enum):  # noqa: N801 - NKI's name
    """Engines of a core."""

    tensor = 0
    vector = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    sync = 5
    unknown = 6


class reduce_cmd(enum.Enum):  # noqa: N801
    """What an instruction does to the accumulator registers."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(enum.Enum):  # noqa: N801
    """Who generates the descriptors of a DMA."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(enum.Enum):  # noqa: N801
    """What an indirect access out of bounds does."""

    error = 0
    skip = 1


class matmul_perf_mode(enum.Enum):  # noqa: N801
    """Performance mode of a matrix multiplication."""

    none = 0
    double_row = 1
    double_row_gen3 = 2
    double_pixel = 3
    double_column = 4


class nc_version(enum.IntEnum):  # noqa: N801
    """Generations of the core."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


class dma_engine(enum.Enum):  # noqa: N801
    """Which DMA engine a `sendrecv` uses."""

    dma = 0
    gpsimd_dma = 1
