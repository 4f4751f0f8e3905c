"""Right kernels of others under the sanitizer: `python -m benchmarks.foreign`."""
