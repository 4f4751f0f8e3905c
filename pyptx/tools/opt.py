"""`pyptx-opt`: xDSL's optimiser driver with the `ptx` dialect, its passes, target and frontend."""

from __future__ import annotations

import io
import re
import sys
from typing import IO

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from ..diagnostics import PTXError, did_you_mean
from ..dialects.upstream import DIALECTS, register
from ..parser.diagnose import diagnose_text
from ..passes.registry import PASSES


class Driver(xDSLOptMain):
    """The driver, which remembers the PTX it reads: xDSL's verifier has no places, the text has."""

    ptx: str = ""

    def register_all_dialects(self) -> None:
        """Those of all universes, with the upstream dialects as MLIR prints them today."""
        register(self.ctx)
        for name, dialect in Universe.get_multiverse().all_dialects.items():
            if name not in DIALECTS:
                self.ctx.register_dialect(name, dialect)

    def parse_chunk(self, chunk: IO[bytes], file_extension: str, start_offset: int = 0) -> ModuleOp | None:
        if (self.args.frontend or file_extension) != "ptx":
            return super().parse_chunk(chunk, file_extension, start_offset)
        data = chunk.read()
        # Lines of a part of a split file count from the file's start.
        self.ptx = "\n" * start_offset + data.decode("utf-8", errors="surrogateescape")
        return super().parse_chunk(io.BytesIO(data), file_extension, start_offset)

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        """The input and its kind. Standard input (`-`, or no name) has no name to tell it by: PTX starts with a directive."""
        if self.args.input_file == "-":
            self.args.input_file = None
        stream, extension = super().get_input_stream()
        if self.args.input_file is None and self.args.frontend is None:
            data = stream.read()
            return io.BytesIO(data), "ptx" if _starts_with_directive(data) else extension
        return stream, extension

    def apply_passes(self, prog: ModuleOp) -> None:
        """Apply the passes. Those that change what instructions are judged by (the target, the version) come before the
        first verification: they may cure what it would object to.
        """
        passes = list(self.pipeline.passes)
        while passes and getattr(passes[0], "changes_the_judge", False):
            passes.pop(0).apply(self.ctx, prog)
        PassPipeline(tuple(passes), self.pipeline.callback).apply(self.ctx, prog)

    def explained(self, error: Exception) -> str:
        """An error for reading: if what was read is illegal PTX, everything wrong with it, with places."""
        found = [d for d in diagnose_text(self.ptx, self.get_input_name()) if d.severity == "error"] if self.ptx else []
        return "\n".join(d.render() for d in found) or str(error)


_UNKNOWN_PASSES = "Unrecognized passes: "
"""What xDSL's error begins with."""
_DIRECTIVE = re.compile(rb"(?:\s+|//[^\n]*|/\*.*?\*/)*\.[a-z]", re.S)


def _starts_with_directive(data: bytes) -> bool:
    return _DIRECTIVE.match(data) is not None


def main() -> None:
    """Run the driver; what is wrong with the input is printed, exit status 1, never a traceback."""
    driver: Driver | None = None
    try:
        driver = Driver("pyptx-opt, a driver for the ptx dialect")
        driver.run()
    except (PTXError, ParseError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except DiagnosticException as error:
        print(driver.explained(error) if driver else error, file=sys.stderr)
        sys.exit(1)
    except ArgSpecParseError as error:
        print(f'pyptx-opt: a pass is written name{{option=value other="text"}}:\n{error}', file=sys.stderr)
        sys.exit(2)
    except (ValueError, OSError) as error:  # unknown passes, missing options, unreadable files
        print(f"pyptx-opt: {error}", file=sys.stderr)
        for name in re.findall(r"'([^']+)'", str(error)) if str(error).startswith(_UNKNOWN_PASSES) else ():
            hint = did_you_mean(name, [*PASSES, *get_all_passes()])
            print(f"hint: {name}: {hint}" if hint else "hint: pyptx-opt --help lists the passes", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
