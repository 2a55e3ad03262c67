"""What executes a network: the framework's devices, precisions and compilers."""
