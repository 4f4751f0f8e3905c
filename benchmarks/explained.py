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


_MEANINGLESS = (
    "finite|infinite|number|notanumber|normal|subnormal"
    "|global_address|rank|box_dim|global_dim|global_stride|element_stride|elemtype|interleave_layout|swizzle_mode"
    "|swizzle_atomicity|fill_mode|acc::f16|acc::f32|b8x16|b6x16_p32|b4x16_p64|b2"
)
"""Found by adding every modifier to an instruction of every opcode: these are taken by more than 80 of them."""
_FRAGMENTS = r"w?mma|wgmma|\w*matrix|clusterlaunchcontrol|tcgen05|mov|multimem|su(ld|st|red)|tex|tld4"
"""Opcodes with operands in braces that ptxas does not check element by element."""

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
        r"\b(fn2?|Lx)\b",
        r"not the symbol (fn2?|Lx)$|is a (function|label)$",
        "ptxas takes a function's name, and a label plus an offset, for a register of any type, even as destination of vshr; mov takes an address",
    ),
    Explained(
        "tensor memory address",
        True,
        r"^(@!?%p\d )?tcgen05\.(shift|cp|dealloc)",
        r"operand taddr",
        "tcgen05.shift, cp and dealloc take anything as address of tensor memory; only a 32-bit register can hold one",
    ),
    Explained(
        "sampler in unified mode",
        True,
        r"^(@!?%\w+ )?(tex|tld4)\S* .*\[[\w%]+, ?[\w%+]+, ",
        r"texmode_independent|the index of an array|the address in operand a takes \d parts",
        "ptxas skips the checks of .target and of an array's index where the sampler is a register, a texture reference or a function",
    ),
    Explained(
        "index next to a sampler in unified mode",
        False,
        r"^(@!?%\w+ )?(tex|tld4)\S*\.a(1d|2d|cube).*\[[\w%]+, ?%\w+, \{",
        r"Vector with elements of different types",
        "with a sampler in a register the index of an array must be of the coordinates' type in unified mode, in no other case",
    ),
    Explained(
        "one register for a vector",
        True,
        r"mov\.\S*v[24].*\}, ?[^{]*;$",
        r"must be a vector (of \d elements )?in braces|operand d must be",
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
        "narrowing sum without .rz",
        True,
        r"^(@!?%p\d )?(add|sub)\.(?!.*\.rz).*f32x2",
        r"\.rz|does not go with",
        "add.bf16x2.f32x2.f32x2 without the rounding that the manual wants is accepted and then ends in an internal error",
    ),
    Explained(
        "modifier of another copy",
        True,
        r"^(@!?%\w+ )?(multimem\.)?cp\.|createpolicy",
        r"has no modifier \.(cta|cluster|gpu|sys|sync_restrict::shared::(cta|cluster))$|mbarrier::report::validity"
        r"|\.global does not go with \.fabric",
        "copies drop what belongs to others: a scope without .relaxed, reports of loads on stores, .sync_restrict on waits",
    ),
    Explained(
        "conversion to padded floats",
        True,
        r"cvt\S*\.e2m1p4x4\b",
        r"has no modifier \.e2m1p4x4",
        "cvt to .e2m1p4x4 is in no manual; ptxas takes it on every target and makes the constant 0 of it",
    ),
    Explained(
        "access mode of a priority",
        True,
        r"applypriority\.async\.bulk\.tensor",
        r"tile::gather4|tile::scatter4|im2col_no_offs",
        "applypriority.async.bulk.tensor takes access modes of stores, and others with dimensions that they do not have",
    ),
    Explained(
        "operand of an expansion",
        False,
        r"%[wy]\d\.[xyzw]|\w\+\d",
        r"Parsing error near '(\.[xyzw]|\+)'",
        "ptxas replaces some instructions by text of its own, in which it cannot read %w1.x or gb+4; which ones depends on the target",
    ),
    Explained(
        "modifier without meaning",
        True,
        rf"\.({_MEANINGLESS})[. ;]",
        rf"\.({_MEANINGLESS})\b",
        "the tests of testp, the fields of tensormap.replace, the formats of ldmatrix and tcgen05.cp, .acc:: of multimem and .b2"
        " are dropped silently by most instructions",
    ),
    Explained(
        "type without meaning",
        True,
        r"\.(pred|texref|samplerref|surfref)\b",
        r"has no modifier \.(texref|samplerref|surfref|pred)$|\.(texref|samplerref|surfref|pred) ",
        "arithmetic, atom and other instructions drop .pred and the types of istypep",
    ),
    Explained(
        "modifier of a sibling",
        True,
        r"^(@!?%\w+ )?(tcgen05\.|tex|tld4|bar\.|ldmatrix|movmatrix|prefetch)",
        r"has no modifier \.(row|col|uni|any|all|sync|exclusive|pack::16b|L1|L1::32B|sync_restrict\S*)$|\.(uni|col|row|any) ",
        "a modifier that a related instruction has is dropped",
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
        r"^(@!?%\w+ )?(v(add|sub|absdiff|min|max|mad|shl|shr|set)|tensormap\.query)\.",
        r"is written and cannot be a constant",
        "the scalar video instructions and tensormap.query let a constant stand as destination",
    ),
    Explained(
        "constant among destinations",
        True,
        r"^(@!?%\w+ )?(ldu?|tex|tld4|suld|atom|multimem|tcgen05|wmma|mma|ldmatrix)\S* \{",
        r"is written and cannot be a constant",
        "in braces some loads let a constant stand where a result goes",
    ),
    Explained(
        "coordinates of a tensor map after a constant",
        False,
        r"bulk\.\S*tensor\S* .*\{-?(\d|WARP_SZ)",
        r"Arguments mismatch",
        "registers after a leading constant may have any size but here",
    ),
    Explained(
        "special register as destination",
        True,
        r"\{[^}]*%[a-z]+[a-z_\d]*\b[^}]*\}",
        r"operand [dr] must be .*, not the special register \S+ which is read-only",
        "a loaded vector and a fragment let a read-only register stand among what is written",
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
        r"\b(4294967296|65536)\b|0xFFFFFFFF|<<",
        r"must be (in|one of|a multiple)",
        "ptxas cuts some constants to 32 or 16 bits before it checks their range",
    ),
    Explained(
        "vector without .v2",
        True,
        r"^(@!?%\w+ )?(su(ld|st|red)|st\.async|mma\.sp)",
        r"must have \d elements?, not [24]",
        "surface accesses and st.async of one element let more stand in braces",
    ),
    Explained(
        "one coordinate or offset for several",
        True,
        r"^(@!?%\w+ )?(tex|tld4|txq)",
        r"must have \d elements, not \d",
        "textures take fewer coordinates and offsets than their dimensions in some spellings",
    ),
    Explained(
        "special register in a fragment",
        True,
        rf"^(@!?%\w+ )?({_FRAGMENTS})",
        r"takes no special register|not the special register \S+: move|%\w+(\.\w)? is read as",
        "special registers stand among the registers of fragments, coordinates and packed values",
    ),
    Explained(
        "constant in a fragment",
        True,
        rf"^(@!?%\w+ )?({_FRAGMENTS})",
        r"must be a register, not a constant|a floating-point constant|needs an integer|takes no integer",
        "constants of the wrong kind stand among the registers of fragments, coordinates and packed values",
    ),
    Explained(
        "integer coordinates of tex.grad",
        True,
        r"tex\.grad",
        r"operand c of tex\.grad must be",
        "before sm_90 tex.grad takes the bits of integers for coordinates of cubes and volumes, newer targets refuse them",
    ),
    Explained(
        "elements of different kinds",
        True,
        rf"^(@!?%\w+ )?({_FRAGMENTS})",
        r"the elements of operand \w+ must be of one type|operand c must be \.f32, and",
        "what may stand side by side in braces depends on what ptxas read before, and after a constant on nothing",
    ),
    Explained(
        "negated element",
        True,
        r"\{[^}]*[-!]",
        r"may not be negated",
        "a minus in braces is dropped",
    ),
    Explained(
        "constants of the wrong kind in fragments",
        False,
        r"^(@!?%\w+ )?(w?mma|wgmma|cp\.|tex|tld4|su(ld|st|red))\S* .*\{[^}]*(\b\d|\b0[fF]|%x\d)",
        r"Arguments mismatch|Incompatible|declarations of the probe|Array index .* unexpected type",
        "which constants may stand in fragments and coordinates depends on target and neighbours",
    ),
    Explained(
        "mixed registers in a tf32 fragment",
        False,
        r"wmma\.mma\S*\.tf32",
        r"Arguments mismatch for instruction '_mma'|Sink",
        "the B fragment of wmma on .tf32 takes registers of one type, the accumulator no sink",
    ),
    Explained(
        "sinks in fragments",
        False,
        r"\{[^}]*\b_",
        r"Result discard|Sink|Arguments mismatch|unexpected type",
        "which sinks may stand in fragments depends on target and neighbours",
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
        "asynchronous store without completion",
        True,
        r"(st|red)\.async",
        r"complete_tx|needs \.release|takes 3 operands, not 2",
        "the modifier that says how st.async completes may be missing, and the mbarrier of st.async and red.async",
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
        r"must be \.b32, not the symbol|must be a register, not a constant",
        "movmatrix takes constants, which are not a row of a matrix",
    ),
    Explained(
        "address as a polynomial",
        False,
        r"clmad.*\+",
        r"Arguments mismatch",
        "clmad refuses a variable plus an offset, which is a constant everywhere else, and takes other constants",
    ),
    Explained(
        "one value for a vector",
        True,
        r"sust|st\.async|tex",
        r"must be a vector of \d elements? in braces",
        "stores to surfaces take one register where .v2 asks for a vector, texture reads one offset",
    ),
    Explained(
        "fourth operand of an atom",
        True,
        r"atom\.\S*b(32|64|128) ",
        r"operand policy (.* needs an integer constant|must be \.u64)",
        "without .L2::cache_hint atom.exch, .and, .or and .xor take a fourth operand of their own type, as if they were .cas",
    ),
    Explained(
        "part of a register in a vector",
        True,
        r"[{,] ?%\w+\.\w+",
        r"register has no element",
        "in braces ptxas does not look at the selector or element after a register",
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
        "32 bits are not an address of multimem",
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
