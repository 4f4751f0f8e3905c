"""The kernels of each rule: a file has the name of the rule's file in `pyptx/simulator/sanitizer/rules`."""
