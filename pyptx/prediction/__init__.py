"""Predicted time: machine code, emulated for its branches and addresses, replayed on a model of one SM.

    print(pyptx.predict(kernel, x, out, card="H100 SXM"))

`predict` takes what `simulate` takes; `CARDS` are the cards that are known; `model.predict_function` takes a function of a
`pyptx.sass` listing.
"""

from .cards import ARCHITECTURES, CARDS, Architecture, Card, card_of
from .facts import SOURCES, Fact
from .predict import predict
from .result import LineStalls, LoopStalls, Prediction, Variant, WhatIf
from .timeline import Timeline

__all__ = [
    "ARCHITECTURES",
    "CARDS",
    "SOURCES",
    "Architecture",
    "Card",
    "Fact",
    "LineStalls",
    "LoopStalls",
    "Prediction",
    "Timeline",
    "Variant",
    "WhatIf",
    "card_of",
    "predict",
]
