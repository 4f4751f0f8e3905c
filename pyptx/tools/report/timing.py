"""`pyptx analyse --time`: predicted times of the kernels of a file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ...diagnostics import PTXError, UsageError
from ...prediction import CARDS, Prediction, WhatIf, card_of, predict
from ...runtime.compile import NoCompiler
from ...sass import SassError
from ...simulator import load
from ..ptxas import ToolNotFound

__all__ = ["add_arguments", "as_json", "as_text", "predictions", "required", "variants"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("predicted time", "needs ptxas, nvdisasm and llvmlite")
    group.add_argument("--time", action="store_true", help="predict how long a launch takes")
    names = ", ".join(card.name for card in CARDS)
    group.add_argument("--card", action="append", default=[], help=f"on this card (several are fine): {names}")
    group.add_argument("--clock", type=float, help="at this clock in GHz (default: the card's boost clock)")
    group.add_argument(
        "--what-if", action="store_true",
        help="a table of variants: CTAs per SM, stages of copies, registers, no bank conflicts, the other cards",
    )  # fmt: skip
    group.add_argument(
        "--sample", type=int, metavar="N", help="for grids whose CTAs differ: N of them, drawn at random, represent all"
    )
    group.add_argument("--grid", help="CTAs: 4 or 4,2 (1)")
    group.add_argument(
        "--arg",
        action="append",
        default=[],
        help="a parameter, in order, as for debug: zeros:f32:1024, u32:5, a .npy file",
    )


_ONLY = ("card", "clock", "grid", "arg", "sample", "what_if")
"""Options that say nothing without --time."""


def required(options: argparse.Namespace) -> str | None:
    """What a prediction lacks; None where nothing does."""
    if not options.time:
        return (
            "--card, --clock, --grid, --arg, --sample and --what-if belong to --time"
            if any(getattr(options, name) not in (None, []) and getattr(options, name) is not False for name in _ONLY)
            else None
        )
    if not options.card:
        return f'--time needs --card, such as --card "{CARDS[6].name}"'
    return None


def as_json(prediction: Prediction, options: argparse.Namespace) -> dict[str, Any]:
    """A prediction as plain data, with its table of variants where that is asked for."""
    return {
        **prediction.as_json(),
        **({"what_if": variants(prediction, options).as_json()} if options.what_if else {}),
    }


def as_text(prediction: Prediction, options: argparse.Namespace) -> str:
    return str(prediction) + (f"\n\n{variants(prediction, options)}" if options.what_if else "")


def variants(prediction: Prediction, options: argparse.Namespace) -> WhatIf:
    return prediction.what_if(cards=[card for card in options.card if card_of(card).name != prediction.card])


def predictions(text: str, names: Sequence[str], options: argparse.Namespace) -> list[Prediction]:
    """One for each kernel of these names and each card. PTXError with what is needed."""
    from ..commands.debug import argument, sizes

    kernels = load(text)
    chosen = [n for n in names if n in kernels]
    if len(chosen) > 1:
        raise UsageError(f"--time takes one kernel, and the file has {', '.join(chosen)}: choose one by --kernel")
    try:
        arguments: list[Any] = [argument(word) for word in options.arg]
        grid = sizes(options.grid or "1")
    except ValueError as error:
        raise UsageError(f"no predicted time: {error}") from None
    try:
        return [
            predict(
                kernels[name], *arguments, card=card, clock=options.clock, grid=grid, block=options.block,
                smem=options.dynamic_shared, sample=options.sample,
            )
            for name in chosen
            for card in options.card
        ]  # fmt: skip
    except UsageError:
        raise
    except (ToolNotFound, NoCompiler) as error:
        raise UsageError(f"no predicted time: {str(error).removeprefix('error: ')}") from None
    except (SassError, ValueError) as error:
        raise PTXError(f"no predicted time: {str(error).removeprefix('error: ')}") from None
