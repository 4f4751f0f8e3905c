"""`pyptx lsp`: the language server for editors, on standard input and output."""

from __future__ import annotations

import argparse
import logging
import sys

from ...diagnostics import install


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tcp", type=int, metavar="PORT", help="listen on 127.0.0.1 instead of standard input")
    parser.add_argument("--log", metavar="FILE", help="write a log")


def run(options: argparse.Namespace) -> int:
    if options.log:
        logging.basicConfig(filename=options.log, level=logging.INFO)
    try:
        from ..lsp.server import make_server
    except ImportError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        print(
            f"pyptx: the language server needs pygls: {install('lsp')}",
            file=sys.stderr,
        )
        return 2
    server = make_server()
    if options.tcp is None:
        server.start_io()
    else:
        server.start_tcp("127.0.0.1", options.tcp)
    return 0
