"""The kinds of disagreement with ptxas that stay, each with its reason; docs/verdicts.md lists them with their counts."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Disagreement:
    """One instruction on which we differ from ptxas."""

    text: str
    version: str
    target: str
    accepted: bool
    """By ptxas."""
    message: str

    @property
    def kind(self) -> str:
        message = re.sub(r"'[^']*'|\d+(\.\d+)?", "..", self.message)
        opcode = re.sub(r"^@!?%\w+ ", "", self.text).split(".")[0].split()[0]
        return f"{opcode}: {'we reject' if self.accepted else 'we accept'}: {message[:90]}"


@dataclass(frozen=True)
class Explained:
    """A kind of disagreement that stays: what ptxas does, a pattern for the instruction and one for the message, and
    why.
    """

    kind: str
    accepted: bool
    """Whether ptxas accepts it (and we do not)."""
    text: str
    message: str
    reason: str

    def matches(self, found: Disagreement) -> bool:
        return (
            found.accepted == self.accepted
            and re.search(self.text, found.text) is not None
            and re.search(self.message, found.message) is not None
        )


EXPLAINED: tuple[Explained, ...] = (
    Explained(
        "register plus a constant",
        True,
        r"%\w+(\.\w+)? ?\+",
        r"^unexpected '\+' after an operand",
        "%r1+4 as a value means nothing: what is added is lost",
    ),
    Explained(
        ".f16x2 register as a predicate",
        True,
        r"%x\d",
        r"must be a \.pred register, and the register is \.f16x2",
        "ptxas does not check registers of this type where the modifier .pred gives the operand's",
    ),
    Explained(
        "special register as guard",
        True,
        r"^@!?%is_explicit_cluster",
        r"the guard %is_explicit_cluster",
        "a guard is a register: move %is_explicit_cluster to one",
    ),
    Explained(
        "function name as a number",
        True,
        r"\b(fn2?|Lx ?\+)",
        r"not a symbol|is a (function|label)$",
        "ptxas takes a function's name for a register of any type, even as destination of vshr; mov takes an address",
    ),
    Explained(
        "tensor memory address",
        True,
        r"^(@!?%p\d )?tcgen05\.",
        r"operand taddr",
        "tcgen05.shift, cp and dealloc take anything as address of tensor memory; only a 32-bit register can hold one",
    ),
    Explained(
        "sampler in unified mode",
        True,
        r"^(@!?%p\d )?(tex|tld4)",
        r"texmode_independent|index of an array|takes \d parts",
        "ptxas skips the check of .target where the sampler operand is a texture reference or a function",
    ),
    Explained(
        "one register for a vector",
        True,
        r"mov\.\S*v[24]",
        r"must be a vector (of \d elements )?in braces",
        "mov.v2 {a, b}, c with a register c is accepted and documented nowhere",
    ),
    Explained(
        "testp without a test",
        True,
        r"testp",
        r"needs one of \.finite",
        "testp.f32 p, a asks nothing; ptxas takes it all the same",
    ),
    Explained(
        "modifier without meaning",
        True,
        "",
        r"has no modifier|does not go with|exclude each other",
        "some modifiers of other instructions (.finite, .b6x16_p32, ...) are dropped silently by ptxas",
    ),
    Explained(
        "vector that starts with a constant",
        True,
        r"\{(_, )*[-!~(]*(\d|WARP_SZ)",
        r"of one type|or wider, and the register|and the register is|is read as",
        "behind a leading constant ptxas does not look at the sizes of the registers",
    ),
    Explained(
        "constant for packed 8-bit floats",
        True,
        r"multimem",
        r"must be a register, not a constant",
        "multimem.st of .e5m2x4 and the like takes constants, of other packed types it does not",
    ),
    Explained(
        "constant as destination",
        True,
        "",
        r"is written and cannot be a constant",
        "a few instructions let a constant stand as destination",
    ),
    Explained(
        "special register as destination",
        True,
        r"^(@!?%p\d )?(ld|ldu|suld|tex|tld4|atom)\..*\{[^}]*%[a-z]+[a-z_\d]*\b[^}]*\}.*\[",
        r"operand d must be \.\w+( or wider)?, not a special register",
        "a loaded vector lets a read-only register stand among what it writes",
    ),
    Explained(
        "columns of an exclusive dealloc",
        True,
        r"tcgen05\.dealloc\.exclusive",
        r"ncols",
        "with .exclusive the number of columns is not checked",
    ),
    Explained(
        "predicate in a fragment",
        True,
        r"wmma|tcgen05|mma",
        r"takes no predicate|the register is \.pred",
        "ptxas counts a predicate as 32 bits where a sink or constant stands in the same fragment",
    ),
    Explained(
        "constant beyond 32 bits",
        True,
        r"\b(4294967296|65536)\b|0xFFFFFFFF|<<|exclusive.*, -\d",
        r"must be (in|one of|a multiple)",
        "ptxas cuts some constants to 32 or 16 bits before it checks their range",
    ),
    Explained(
        "vector without .v2",
        True,
        r"su(ld|st|red)|tex|tld4|st\.async|txq|mma\.sp",
        r"must have \d elements",
        "surface accesses and st.async of one element let more stand in braces, offsets of textures fewer",
    ),
    Explained(
        "constants and special registers in fragments",
        True,
        r"mma|matrix|query_cancel|tcgen05|mov\.|multimem|sured|sust|^(@!?%p\d )?(tex|tld4)",
        r"not a constant|needs an integer or one such|the coordinates of a|not a special register|is read as \.pred|may not be negated|operand c must be .b|floating-point constant|integer constant|one type|side by side",
        "matrix and texture operands let constants of the wrong kind and special registers stand among registers",
    ),
    Explained(
        "constants of the wrong kind in fragments",
        False,
        r"(mma|tensor|tex|tld4|su(ld|st|red)).*\{[^}]*\b(\d|0[fF]|_)",
        r"Arguments mismatch|unexpected type|Result discard|Incompatible|declarations of the probe|Sink",
        "which constants and sinks may stand in fragments and coordinates depends on target and neighbours",
    ),
    Explained(
        "special registers in a vector",
        False,
        r"mov\.b\d+ .*\{.*%[a-z]\w*[a-z]",
        r"Incompatible elements",
        "sizes of special registers packed by mov",
    ),
    Explained(
        "constant as result of a call",
        True,
        r"call[.\w]* \(",
        r"results of a call",
        "ptxas lets a constant stand where a result goes",
    ),
    Explained(
        "st.async without completion",
        True,
        r"st\.async",
        r"complete_tx|needs \.release|takes \d operands",
        "the modifier that says how st.async completes may be missing",
    ),
    Explained(
        "constant out of range",
        False,
        r"tcgen05\.commit|st\.bulk",
        r"out of range|Arguments mismatch",
        "limits of constants that the manual does not give",
    ),
    Explained(
        "reference as address",
        False,
        r"\[(tx|su)\b",
        r"Indirect access to (texture|surface)",
        "some address checks see the texture or surface reference, most do not",
    ),
    Explained(
        "register of a tensor map",
        True,
        r"tensor",
        r"operand map must be an integer register",
        "predicates and 128-bit registers pass for addresses of tensor maps",
    ),
    Explained(
        "address of a proxy fence",
        True,
        r"fence\.proxy",
        r"the address in operand",
        "ptxas takes any register as address",
    ),
    Explained(
        "phase given as constant",
        True,
        r"mbarrier",
        r"operand phase",
        "ptxas checks the constant phase of some waits only",
    ),
    Explained(
        "narrow operand of multimem",
        True,
        r"multimem\.(st|red)",
        r"and the register is",
        "multimem.st.async takes wider registers for its bytes",
    ),
    Explained(
        "narrow address",
        False,
        r"\[%[bh]\d",
        r"Arguments mismatch",
        "8 and 16-bit registers as address: some forms of ldmatrix, st.async and others refuse them",
    ),
    Explained(
        "narrow address of a barrier",
        True,
        r"\[%[bh]",
        r"operand mbar must be",
        "8 and 16-bit registers as barrier of bulk copies: refused by some forms, and no address for any",
    ),
    Explained(
        "sampler of a mip-mapped read",
        True,
        r"tex\.(level|grad).*\[\w+, %d\d",
        r"texmode_independent|takes \d operands",
        "what tex.grad and tex.level let stand with a sampler in a register in unified mode depends on the target",
    ),
    Explained(
        "address without brackets",
        True,
        r"^(@!?%\w+ )?(cp\.|fabric|red)",
        r"must be an address in brackets, not",
        "bulk and tensor copies take a bare register, symbol or constant for an address",
    ),
    Explained(
        "address as a matrix row",
        True,
        r"movmatrix",
        r"must be \.b32, not a symbol",
        "movmatrix takes a variable plus an offset, which is no row of a matrix, and refuses every other constant",
    ),
    Explained(
        "address as a polynomial",
        False,
        r"clmad.*\+",
        r"Arguments mismatch",
        "clmad refuses a variable plus an offset, which is a constant everywhere else, and takes other constants",
    ),
    Explained(
        "vector of one for a count",
        True,
        r"mbarrier\.arrive.*\{[^,]*\}",
        r"must be \.u32, not a vector",
        "mbarrier.arrive takes its count in braces, mbarrier.expect_tx does not",
    ),
    Explained(
        "one value for a vector",
        True,
        r"sust|st\.async|tex",
        r"must be a vector of \d elements in braces",
        "stores to surfaces take one register where .v2 asks for a vector, texture reads one offset",
    ),
    Explained(
        "floating-point cache policy",
        True,
        r"atom\.\S*b(32|64) ",
        r"operand policy .* needs an integer constant",
        "atom reads the constant as its own type if .L2::cache_hint is missing",
    ),
    Explained(
        "part of a register in a vector",
        True,
        r"[{,] ?%\w+\.\w+",
        r"register has no element",
        "in braces ptxas does not look at the selector or element behind a register",
    ),
    Explained(
        "sink in a packed source",
        True,
        r"mov\.b\d+ .*\{[^}]*_",
        r"may not be the sink",
        "mov.b32 %r0, {_, %h1} leaves a half undefined",
    ),
    Explained(
        "vector register for a scalar",
        True,
        r"%[wy]\d",
        r"and the register is \.v[24]\.",
        "a few instructions with own lowering take a vector register for a scalar",
    ),
    Explained(
        "special register as address",
        True,
        r"multimem\.\S+ \[%[a-z]",
        r"must be \.u64 or wider, and %\w+ is not",
        "32 bits are no address of multimem",
    ),
    Explained(
        "symbol as an index",
        True,
        r"\w\[[A-Za-z_]",
        r"^the index in operand \w+ must be a constant or a register, not a symbol",
        "a[b] takes the low bits of b's address, or of a name that is declared nowhere, for an index",
    ),
    Explained(
        "element for an address of multimem",
        True,
        r"^(@!?%p\d )?multimem\.",
        r"must be an address in brackets, not an element of an array",
        "multimem.red and ld_reduce take a[1] in some spellings, st in none",
    ),
)


def explanation(disagreement: Disagreement) -> Explained | None:
    """The kind that explains a disagreement, or None."""
    return next((e for e in EXPLAINED if e.matches(disagreement)), None)
