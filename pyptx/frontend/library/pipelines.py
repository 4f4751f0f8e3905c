"""`ptx.Pipeline`: a ring of stages in shared (or tensor) memory with its full and empty mbarriers (PTX ISA 9.7.15.16)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Literal, get_args

from ...types import u32
from ..core.instructions import AddressOperand, emit, move
from ..core.nonvalue import as_int
from ..core.registers import Guard, Reg, temporary
from ..core.trace import Trace, current
from ..memory.shared import SharedAlloc
from ..memory.shared import mbarrier as mbarriers
from .clusters import cluster
from .control import PipelineState
from .copies import cp
from .mbarriers import Scope, check_scope, mbarrier
from .tcgen05 import tcgen05

__all__ = ["Consumer", "Pipeline", "Producer", "Stage"]

FilledBy = Literal["tma", "cp.async", "threads", "tcgen05"]
EmptiedBy = Literal["threads", "tcgen05"]


class Pipeline:
    """A ring of `stages`: producers fill a stage, consumers use it and release it. Per stage there is an mbarrier `full[i]` that
    completes a phase when the stage is filled, and one, `empty[i]`, when all consumers have released it.

    filled_by: what completes a phase of `full`:

    - `"tma"`: the bytes of bulk and tensor copies. Each of the `producers` (1) announces `bytes` when it acquires a stage. With multicast, `bytes` are those
      that arrive in this CTA.
    - `"cp.async"`: the `cp.async` copies of `producers` threads, by `cp.async.mbarrier.arrive.noinc` at `commit`.
    - `"threads"`: `producers` arrivals at `commit`, after ordinary stores.
    - `"tcgen05"`: `tcgen05.commit` at `commit`, after `tcgen05.mma` or `tcgen05.cp`.

    emptied_by: `"threads"`: `consumers` arrivals at `release`; `"tcgen05"`: `tcgen05.commit` at `release`, once the matrix instructions
    that read the stage are complete.

    bytes: of a stage, or the allocations that it consists of, whose first index is the stage. scope: `"cluster"` where producers or consumers of other
    CTAs take part: waits then acquire what they did. cta_group, multicast_mask: those of `tcgen05.commit`. name: of the barriers, `<name>_full` and
    `<name>_empty`; by default pipe, pipe1, ...

        tiles = smem.alloc(f32, (3, 16, 32))
        pipe = ptx.Pipeline(3, bytes=[tiles], consumers=3)
        with ptx.if_(first):
            pipe.init()
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with ptx.if_(t < 32):  # a warp produces
            with ptx.elect():
                producer = pipe.producer()
                for i in ptx.range_(8):
                    stage = producer.acquire()  # waits until it is empty, announces the bytes
                    ptx.cp.async_.bulk.tensor_2d(dst=tiles[stage.index], src=tensor, coord=(0, i * 16), mbar=stage.full)
        with ptx.else_():  # three warps consume
            consumer = pipe.consumer()
            for i in ptx.range_(8):
                stage = consumer.wait()  # waits until it is full
                total += tiles[stage.index, 0, t & 31]
                ptx.bar.warp_sync()
                consumer.release(stage, pred=t % 32 == 0)

    PTXError for numbers that are not positive, an allocation whose first dimension is not `stages`, a word that is not one of the above.
    """

    def __init__(
        self,
        stages: int,
        *,
        filled_by: FilledBy = "tma",
        emptied_by: EmptiedBy = "threads",
        bytes: int | SharedAlloc | Sequence[SharedAlloc] | None = None,
        producers: int = 1,
        consumers: int = 1,
        scope: Scope = "cta",
        cta_group: int = 1,
        multicast_mask: Any = None,
        name: str | None = None,
    ):
        trace = current()
        _check_word(trace, "filled_by", filled_by, get_args(FilledBy))
        _check_word(trace, "emptied_by", emptied_by, get_args(EmptiedBy))
        check_scope(trace, scope)
        stages, producers, consumers = as_int(stages), as_int(producers), as_int(consumers)
        if name is not None and not (isinstance(name, str) and name.isidentifier()):
            raise trace.error(f"the name of a pipeline is an identifier such as weights, not {name!r}")
        for what, value in (("stages", stages), ("producers", producers), ("consumers", consumers)):
            if not isinstance(value, int) or value < 1:
                raise trace.error(f"{what} of a pipeline are a positive int, not {value!r}")
        self.stages, self.producers, self.consumers = stages, producers, consumers
        self.filled_by: FilledBy = filled_by
        self.emptied_by: EmptiedBy = emptied_by
        self.scope: Scope = scope
        self.cta_group, self.multicast_mask = cta_group, multicast_mask
        self.bytes = _bytes_of_stage(trace, bytes, stages, filled_by)
        name = name or _fresh_name(trace)
        self.full = mbarriers(stages, name=f"{name}_full")
        self.empty = mbarriers(stages, name=f"{name}_empty")

    def __repr__(self) -> str:
        name = self.full.symbol.removesuffix("_full")
        return f"Pipeline({name}, {self.stages} stages, filled by {self.filled_by}, emptied by {self.emptied_by})"

    def init(self, *, pred: Guard = None) -> None:
        """`mbarrier.init` of all barriers, by one thread; `ptx.fence.mbarrier_init()` and a barrier (of the cluster, if others take part)
        follow.
        """
        full = 1 if self.filled_by == "tcgen05" else self.producers
        empty = 1 if self.emptied_by == "tcgen05" else self.consumers
        for i in range(self.stages):
            mbarrier.init(self.full[i], full, pred=pred)
            mbarrier.init(self.empty[i], empty, pred=pred)

    def producer(self) -> Producer:
        """The side that fills, from stage 0 on, which is empty: two registers, made and set here, in the code of this role."""
        return Producer(self)

    def consumer(self) -> Consumer:
        """The side that uses, from stage 0 on: two registers, made and set here, in the code of this role."""
        return Consumer(self)


class Stage:
    """A stage that was acquired or waited for. `index` is its number, a u32 register: `tiles[stage.index]`."""

    def __init__(self, pipeline: Pipeline, index: Reg):
        self.pipeline, self.index = pipeline, index
        self._full: AddressOperand | None = None

    def __repr__(self) -> str:
        return "a stage of a pipeline (its number is stage.index)"

    @property
    def full(self) -> AddressOperand:
        """The address of its full mbarrier, for the copies that fill it."""
        if self._full is None:
            self._full = _barrier(self.pipeline.full, self.index)
        return self._full


class Producer:
    """One producer's place in the ring; `acquire`, fill, and `commit` where copies do not tell the barrier themselves."""

    def __init__(self, pipeline: Pipeline):
        self.pipeline = pipeline
        phase = temporary(current(), u32)
        move(phase, 1)  # the first round finds the stages empty
        self.state = PipelineState(pipeline.stages, phase=phase)

    def __repr__(self) -> str:
        return f"the producer of {self.pipeline!r}"

    def acquire(self, *, announce: Guard = None, bytes: Any = None) -> Stage:
        """The next stage, once it is empty. Filled by TMA: `mbarrier.arrive.expect_tx` of the pipeline's bytes, or of `bytes`, where
        `announce` holds (a pair of CTAs that share a barrier announces in one of them).
        """
        pipeline = self.pipeline
        index, parity = self.state.advance()
        mbarrier.wait(_barrier(pipeline.empty, index), parity, scope=pipeline.scope)
        stage = Stage(pipeline, index)
        if pipeline.filled_by == "tma":
            mbarrier.arrive_expect_tx(stage.full, pipeline.bytes if bytes is None else bytes, pred=announce)
        return stage

    def commit(self, stage: Stage, *, pred: Guard = None) -> None:
        """This producer has filled the stage, or will have when its copies and matrix instructions so far are complete. PTXError for a
        pipeline that is filled by TMA: there the copies tell.
        """
        pipeline = self.pipeline
        match pipeline.filled_by:
            case "cp.async":
                cp.async_.mbarrier_arrive(stage.full, noinc=True, pred=pred)
            case "threads":
                mbarrier.arrive(stage.full, pred=pred)
            case "tcgen05":
                _commit(pipeline, stage.full, pred)
            case "tma":
                raise current().error(
                    "a pipeline that is filled by TMA has no commit: the copies count their bytes at stage.full",
                    'Pipeline(..., filled_by="threads") for ordinary stores',
                )

    @contextmanager
    def fill(self, *, announce: Guard = None, bytes: Any = None) -> Generator[Stage]:
        """`with producer.fill() as stage:` acquires the stage, and commits it at the end unless it is filled by TMA."""
        stage = self.acquire(announce=announce, bytes=bytes)
        yield stage
        if self.pipeline.filled_by != "tma":
            self.commit(stage)

    def drain(self) -> None:
        """Wait until consumers have released every stage: before a CTA ends whose barriers others still arrive at."""
        for _ in range(self.pipeline.stages):
            index, parity = self.state.advance()
            mbarrier.wait(_barrier(self.pipeline.empty, index), parity, scope=self.pipeline.scope)


class Consumer:
    """One consumer's place in the ring; `wait`, use, `release`."""

    def __init__(self, pipeline: Pipeline):
        self.pipeline = pipeline
        self.state = PipelineState(pipeline.stages)

    def __repr__(self) -> str:
        return f"the consumer of {self.pipeline!r}"

    def wait(self) -> Stage:
        """The next stage, once it is full."""
        index, parity = self.state.advance()
        stage = Stage(self.pipeline, index)
        mbarrier.wait(stage.full, parity, scope=self.pipeline.scope)
        return stage

    def release(self, stage: Stage | Reg, *, cta: Any = None, pred: Guard = None) -> None:
        """This consumer no longer needs a stage (or the one with the number in a u32 register): one arrival where `pred` holds, in the CTA with that
        rank in the cluster if `cta` is given (a register or int), else in this one; or `tcgen05.commit`.
        """
        pipeline = self.pipeline
        address = _barrier(pipeline.empty, stage.index if isinstance(stage, Stage) else stage)
        if pipeline.emptied_by == "tcgen05":
            _commit(pipeline, address, pred)
        elif cta is None:
            mbarrier.arrive(address, pred=pred)
        else:
            cluster.arrive_remote(address, cta, pred=pred)

    @contextmanager
    def use(self, *, cta: Any = None, pred: Guard = None) -> Generator[Stage]:
        """`with consumer.use(pred=first_lane) as stage:` waits for the stage, and releases it at the end."""
        stage = self.wait()
        yield stage
        self.release(stage, cta=cta, pred=pred)


def _commit(pipeline: Pipeline, address: AddressOperand, pred: Guard) -> None:
    tcgen05.commit(address, cta_group=pipeline.cta_group, multicast_mask=pipeline.multicast_mask, pred=pred)


def _barrier(barriers: Any, index: Reg) -> AddressOperand:
    """The address of the mbarrier with a number that is known at run time: `mov` and `mad`."""
    address = temporary(current(), u32)
    move(address, barriers)
    emit("mad.lo.u32", address, index, 8, address)
    return AddressOperand(address)


def _fresh_name(trace: Trace) -> str:
    names = ("pipe" + (str(n) if n else "") for n in count())
    return next(n for n in names if not trace.symbols & {f"{n}_full", f"{n}_empty"})


def _check_word(trace: Trace, what: str, word: object, known: tuple[str, ...]) -> None:
    if word not in known:
        raise trace.error(f"{what} of a pipeline is one of {', '.join(map(repr, known))}, not {word!r}")


def _bytes_of_stage(
    trace: Trace, given: int | SharedAlloc | Sequence[SharedAlloc] | None, stages: int, filled_by: FilledBy
) -> int | None:
    """Bytes that arrive in a stage; None where no barrier counts them."""
    if filled_by != "tma":
        if given is not None:
            raise trace.error(
                f"bytes are counted for TMA copies only, and this pipeline is filled by {filled_by}", "leave out bytes="
            )
        return None
    if isinstance(given, int) and not isinstance(given, bool):
        if not 0 < given < 1 << 20:
            raise trace.error(f"a phase of an mbarrier counts 1 to 2**20 - 1 bytes, not {given}")
        return given
    if given is None or isinstance(given, (str, bool)):
        raise trace.error("a pipeline that TMA fills needs bytes=: those of a stage, or its allocations as a list")
    if not isinstance(given, (SharedAlloc, Sequence)) or given == []:
        raise trace.error(f"bytes of a pipeline are an int, an allocation or a list of them, not {given!r}")
    total = 0
    for each in [given] if isinstance(given, SharedAlloc) else given:
        if not isinstance(each, SharedAlloc):
            raise trace.error(f"bytes are an int or a list of allocations, not one of {type(each).__name__}")
        if each.shape[0] != stages or len(each.shape) < 2:
            raise trace.error(
                f"{each.symbol} has shape {each.shape}, and the pipeline {stages} stages",
                f"the first of two or more dimensions is the stage: smem.alloc({each.dtype}, ({stages}, ...))",
            )
        total += each.size // stages
    return _bytes_of_stage(trace, total, stages, filled_by)
