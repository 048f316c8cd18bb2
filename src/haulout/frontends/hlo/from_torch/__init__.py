"""PyTorch modules: exported by `torch.export`, turned into functions of JAX with the lowerings of torchax."""
