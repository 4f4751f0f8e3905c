"""How lit runs the tests in this folder: `make lit`, or `lit -v tests/filecheck/<file>`."""

import os
import sys

import lit.formats

# lit executes this file with `config` and `lit_config` in scope.
config = globals()["config"]

config.name = "pyptx"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".ptx", ".py"]
config.excludes = ["lit.cfg.py", "Inputs", "__pycache__"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(config.test_source_root))
config.test_exec_root = os.path.join(root, "build", "lit")

# The tools next to the running interpreter: pyptx-opt, pyptx, filecheck, not others of that name.
bin_dir = os.path.dirname(os.path.abspath(sys.executable))
config.environment["PATH"] = os.pathsep.join([bin_dir, os.environ.get("PATH", "")])
config.environment["PYTHONPATH"] = root
for name in ("PTXAS", "NVDISASM", "CUOBJDUMP", "CUDA_HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

# The interpreter that runs lit, and filecheck under the name it has in LLVM.
config.substitutions += [("%python", sys.executable), (r"\bFileCheck\b", "filecheck")]
