"""The arithmetic of NKI's instructions: what an `nki.*` instruction writes, from its attribute `args` or `call`.

types       element types by NKI's names; conversion to and from float32
places      tensors of an instruction as arrays of the simulated memory
call        the arguments of one instruction, read from its attributes
registers   accumulators of engines, scalar registers, and where matrix multiplications have written
operators   ALU operators; activations: functions of the scalar engine
table       every instruction by its name; matmul, movement, elementwise, reductions, selection, quantisation
binder      an instruction of a program as a step
"""
