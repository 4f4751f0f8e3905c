"""How few registers a block would need if its instructions stood in a better order.

Compilers write loads long before their uses, and ptxas moves them. Here a block is scheduled from its end by list
scheduling: of the instructions whose users are all placed, the one that lowers the number of live registers most comes
next (the last one in the text, among equals). Stores, barriers and everything else with an effect keep their order, and
loads stay between those around them.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from xdsl.ir import Block, Operation, SSAValue

from ..dialects.ptx.instruction import Instruction
from .storage import Storage


def relaxed_pressure(block: Block, live_out: Iterable[SSAValue], storage: Storage) -> int:  # noqa: C901  one scheduler over shared state
    """The most 32-bit registers live at once in the block in that order. `live_out`: the values live at its end."""
    ops = list(block.ops)
    before, users, left = _order(ops)
    held: dict[int, int] = {}  # unit -> live values that have it
    live: set[SSAValue] = set()

    def add(value: SSAValue) -> None:
        live.add(value)
        for unit in storage.units[value]:
            held[unit] = held.get(unit, 0) + 1

    for value in live_out:
        add(value)
    most = len(held)

    def cost(i: int) -> int:
        """By how much the live registers grow if op `i` is placed now."""
        freed = sum(1 for r in ops[i].results if r in live for u in storage.units[r] if held[u] == 1)
        new = {u for v in ops[i].operands if v not in live for u in storage.units[v] if u not in held}
        return len(new) - freed

    ready: list[tuple[int, int]] = []
    placed = [False] * len(ops)
    for i in range(len(ops)):
        if not left[i]:
            heappush(ready, (cost(i), -i))
    while ready:
        old, negative = heappop(ready)
        i = -negative
        if placed[i]:
            continue
        now = cost(i)
        if now > old:  # what it would have shared is gone
            heappush(ready, (now, negative))
            continue
        placed[i] = True
        op = ops[i]
        dead = sum(len(storage.units[r]) for r in op.results if r not in live)
        most = max(most, len(held) + dead)
        for result in op.results:
            if result in live:
                live.remove(result)
                for unit in storage.units[result]:
                    held[unit] -= 1
                    if not held[unit]:
                        del held[unit]
        for value in op.operands:
            if value not in live:
                add(value)
                for user in users[value]:  # they are cheaper now
                    if not placed[user] and not left[user]:
                        heappush(ready, (cost(user), -user))
        most = max(most, len(held))
        for j in before[i]:
            left[j] -= 1
            if not left[j]:
                heappush(ready, (cost(j), -j))
    return most


def _order(ops: list[Operation]) -> tuple[list[list[int]], dict[SSAValue, list[int]], list[int]]:
    """For each op those that must stay above it; the users of each value; for each op how many must stay below it."""
    index = {op: i for i, op in enumerate(ops)}
    before: list[list[int]] = [[] for _ in ops]
    users: dict[SSAValue, list[int]] = {}
    left = [0] * len(ops)
    previous = -1  # the last op with an effect
    reads: list[int] = []  # loads since then
    for i, op in enumerate(ops):
        above: dict[int, None] = {}
        for value in op.operands:
            users.setdefault(value, []).append(i)
            owner = value.owner
            if isinstance(owner, Operation) and owner in index:
                above[index[owner]] = None
        effect = _effect(op)
        if effect != "pure" and previous >= 0:
            above[previous] = None
        if effect == "read":
            reads.append(i)
        elif effect != "pure":
            above.update(dict.fromkeys(reads))
            reads, previous = [], i
        before[i] = list(above)
        for j in above:
            left[j] += 1
    return before, users, left


def _effect(op: Operation) -> str:
    if not isinstance(op, Instruction):
        return "pure" if op.results else "order"
    if op.terminator:
        return "control"
    if op.effect == "read" and op.access == "load" and {"volatile", "relaxed", "acquire"} & set(op.modifiers):
        return "order"
    if op.effect == "read" and ("param" in op.modifiers or "const" in op.modifiers or "nc" in op.modifiers):
        return "pure"
    return op.effect
