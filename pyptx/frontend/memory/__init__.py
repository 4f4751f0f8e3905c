"""Where values are: addresses, typed pointers, shared memory, tensors and parameters."""
