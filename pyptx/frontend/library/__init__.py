"""The namespaces of `ptx` and `reg` beyond single instructions: control flow, mbarriers, copies, matrix instructions."""
