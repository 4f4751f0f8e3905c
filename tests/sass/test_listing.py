"""Machine code as data: what the bits say, and what nvdisasm and ptxas say of the same code."""

from __future__ import annotations

import pytest

from pyptx import PTXError, sass
from pyptx.runtime.ptxas import ToolNotFound, assemble, find_tool
from pyptx.sass.control import control_of
from pyptx.sass.listing import Function, Instruction
from pyptx.sass.live import _Flow, live_after  # pyright: ignore[reportPrivateUsage]
from pyptx.sass.operands import (
    Constant,
    Immediate,
    Keyword,
    Label,
    Memory,
    OperandError,
    Register,
    Relocation,
    Scoreboards,
    read_operands,
)

KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n) {
 .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
 .shared .align 4 .b8 tile[64];
 ld.param.u64 %rd1,[a];
 ld.param.u64 %rd2,[b];
 ld.param.u32 %r1,[n];
 mov.u32 %r2,%tid.x;
 setp.ge.u32 %p1,%r2,%r1;
 @%p1 bra DONE;
 mul.wide.u32 %rd3,%r2,4;
 add.s64 %rd4,%rd1,%rd3;
 add.s64 %rd5,%rd2,%rd3;
 ld.global.f32 %f1,[%rd4];
 mov.f32 %f2,0f00000000;
 mov.u32 %r3,0;
LOOP:
 fma.rn.f32 %f2,%f2,%f1,%f1;
 sin.approx.f32 %f2,%f2;
 st.shared.f32 [tile],%f2;
 add.u32 %r3,%r3,1;
 setp.lt.u32 %p2,%r3,%r1;
 @%p2 bra LOOP;
 st.global.f32 [%rd5],%f2;
DONE:
 ret;
}
"""


def _has_tools() -> bool:
    try:
        return bool(find_tool("ptxas") and find_tool("nvdisasm"))
    except ToolNotFound:
        return False


needs_tools = pytest.mark.skipif(not _has_tools(), reason="no ptxas or nvdisasm: pip install '.[ptxas]'")


@pytest.fixture(scope="module")
def listing() -> sass.Listing:
    return sass.assemble(KERNEL)


@pytest.mark.parametrize(
    ("high", "stall", "yields", "write", "read", "wait", "reuse"),
    [
        # bit by bit: 0x000fea0003800000 >> 41 = 0x7f5 = 0 000000 111 111 1 0101
        (0x000FEA0003800000, 5, False, None, None, (), ()),
        # 0x001fda000bf06070 >> 41 = 0xfed = 0 000001 111 111 0 1101
        (0x001FDA000BF06070, 13, True, None, None, (0,), ()),
        # 0x000ea2000c1e1900 >> 41 = 0x751 = 0 000000 111 010 1 0001
        (0x000EA2000C1E1900, 1, False, 2, None, (), ()),
        # 0x0000680000000400 >> 41 = 0x034 = 0 000000 000 001 1 0100
        (0x0000680000000400, 4, False, 1, 0, (), ()),
        # 0x040fe4000bf26070 >> 41 = 0x207f2 = 0001 000000 111 111 1 0010
        (0x040FE4000BF26070, 2, False, None, None, (), (0,)),
        # 0x00afe20000000002 >> 41 = 0x57f1 = 0 001010 111 111 1 0001
        (0x00AFE20000000002, 1, False, None, None, (1, 3), ()),
    ],
)
def test_control_codes_of_words_decoded_by_hand(high, stall, yields, write, read, wait, reuse):
    found = control_of(high << 64)
    assert (found.stall, found.yields, found.write_barrier, found.read_barrier) == (stall, yields, write, read)
    assert (found.wait, found.reuse) == (wait, reuse)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("R4.reuse, -|R5|.H0_H0", (Register("R", 4, reuse=True), Register("R", 5, negated=True, absolute=True, modifiers=("H0_H0",)))),
        ("!PT, UP3, RZ, SR_TID.X", (Register("P", None, "PT", negated=True), Register("UP", 3), Register("R", None, "RZ"), Register("SR", None, "SR_TID.X"))),
        ("-c[0x0][0x210]", (Constant(0, 0x210, negated=True),)),
        ("c[0x3][R4+-0x8]", (Constant(3, -8, Register("R", 4)),)),
        ("0x10, -0x1, 3.5, 4", (Immediate(16, "0x10"), Immediate(-1, "-0x1"), Immediate(3.5, "3.5"), Immediate(4, "4"))),
        ("desc[UR4][R2.64+UR6+0x10]", (Memory("", Register("R", 2, modifiers=("64",)), Register("UR", 6), 16, Register("UR", 4)),)),
        ("gdesc[UR4].tnspB", (Memory("gdesc", None, Register("UR", 4), modifiers=("tnspB",)),)),
        ("R2 `(f)", (Register("R", 2), Label("f"))),
        ("SB0, 0x1, {3,2}", (Register("SB", 0), Immediate(1, "0x1"), Scoreboards((3, 2)))),
        ("UR6, 32@lo(table)", (Register("UR", 6), Relocation(32, "lo", "table"))),
        ("32@hi(fun@unified(here))", (Relocation(32, "hi", "fun@unified(here)"),)),
        ("R1, 32@lo((k + .L_x_0@srel))", (Register("R", 1), Relocation(32, "lo", "(k + .L_x_0@srel)"))),
        ("ARRAY_2D", (Keyword("ARRAY_2D"),)),
    ],
)  # fmt: skip
def test_operands(text, wanted):
    assert read_operands(text) == wanted


def test_an_operand_that_is_not_known_is_refused():
    with pytest.raises(OperandError, match=r"R4\?x"):
        read_operands("R1, R4?x")


@needs_tools
def test_a_listing_agrees_with_ptxas(listing):
    usage = assemble(KERNEL, "sm_90a").usage["k"]
    (function,) = listing
    assert (function.name, listing.arch) == ("k", "sm_90a")
    assert (function.registers, function.shared_bytes) == (usage.registers, usage.shared_bytes)
    assert [i.address for i in function] == list(range(0, 16 * len(function), 16))
    assert function.at(0x10) is function.instructions[1]


@needs_tools
def test_each_instruction_has_a_line_of_the_ptx_that_makes_it(listing):
    lines = KERNEL.split("\n")
    word = {"MUFU": "sin.approx", "LDG": "ld.global", "STG": "st.global", "STS": "st.shared", "S2R": "%tid.x"}
    seen = set()
    for instruction in listing["k"]:
        assert instruction.line is not None
        if instruction.opcode in word:
            assert word[instruction.opcode] in lines[instruction.line - 1]
            seen.add(instruction.opcode)
    assert seen == set(word)


@needs_tools
def test_line_information_changes_no_instruction(listing):
    plain = assemble(KERNEL, "sm_90a").cubin
    assert plain is not None
    assert [i.word for i in sass.read(plain)["k"]] == [i.word for i in listing["k"]]


@needs_tools
def test_branches_point_to_instructions(listing):
    function = listing["k"]
    branches = [i for i in function if i.opcode == "BRA"]
    assert branches
    assert all(function.at(i.target) for i in branches)


@needs_tools
@pytest.mark.parametrize("data", [b"", b"no cubin", b"\x7fELF\x02\x01" + bytes(80)])
def test_bytes_that_are_no_cubin_are_refused(data):
    with pytest.raises(PTXError, match="cubin"):
        sass.read(data)


def test_a_text_without_target_needs_an_architecture():
    with pytest.raises(PTXError, match=r"no \.target"):
        sass.assemble(".version 8.0\n")


def test_live_registers_of_blocks_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block jumps to the one that lies before it: the first in memory is the last to run, and R5 is read there."""
    code: list[Instruction] = []

    def add(opcode: str, operands: tuple[Label, ...] = (), reads: str = "", writes: str = "") -> None:
        sets = {"reads": frozenset(reads.split()), "writes": frozenset(writes.split())}
        code.append(Instruction(16 * len(code), 0, opcode, opcode, (), operands, control_of(0), **sets))

    count = 200
    add("BRA", (Label("last", 16 * (2 * count - 1)),))
    for block in range(count):
        add("FADD", (), "R4" if block else "R5", "R4")
        add("BRA", (Label("before", 16 * (2 * block - 1)),)) if block else add("EXIT")
    sweeps: list[int] = []
    sweep = _Flow._sweep
    monkeypatch.setattr(_Flow, "_sweep", lambda self, *args: sweeps.append(1) or sweep(self, *args))
    live = live_after(Function("f", "sm_90", tuple(code), {}))
    assert live[0] == {"R4", "R5"}
    assert live[1] == set()
    assert len(sweeps) < 10


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sass.read(None), "takes the bytes of a cubin, not NoneType"),
        (lambda: sass.read("abc"), "takes the bytes of a cubin, not str"),
        (lambda: sass.assemble(KERNEL, arch=90), "arch must be the name of a target"),
        (lambda: sass.assemble(KERNEL, arch="sm_9000"), "sm_9000"),
        (lambda: sass.assemble(KERNEL, options="-O3"), "options must be a sequence of strings"),
        (lambda: sass.assemble(KERNEL, options=5), "options must be a sequence of strings"),
        (lambda: sass.assemble(KERNEL, options=[None]), "options must be a sequence of strings"),
        (lambda: sass.assemble(KERNEL, options=["\0"]), "options must be a sequence of strings"),
        (lambda: sass.assemble(5), "not int"),
        (lambda: sass.assemble(object()), "not object"),
    ],
)
def test_wrong_kinds_of_arguments(call, words):
    with pytest.raises(PTXError, match=words):
        call()


JUMPS = """.version 8.0
.target sm_90
.address_size 64
.file 1 "own.cu"
.visible .entry k(.param .u64 a){ .reg .b32 %r<9>; .reg .b64 %rd<3>;
 ld.param.u64 %rd1,[a]; mov.u32 %r1,%tid.x; and.b32 %r2,%r1,3;
 .loc 1 9 1
 ts: .branchtargets L0,L1,L2,L3; brx.idx %r2,ts;
L0: st.global.u32 [%rd1],%r1; bra E;
L1: .loc 1 12 1
 st.global.u64 [%rd1],%rd1; bra E;
L2: atom.global.add.u32 %r3,[%rd1],%r3; bra E;
L3: red.global.max.u32 [%rd1],%r1;
E: ret; }
"""


ADDRESSES = """.version 8.7
.target sm_90
.address_size 64
.global .align 8 .b32 table[64];
.extern .func ext (.param .b32 a);
.visible .entry k(.param .u64 out)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [out];
    mov.u64 %rd2, table;
    st.global.u64 [%rd1], %rd2;
    mov.u32 %r1, %clock;
    { .param .b32 a; st.param.b32 [a], %r1; call ext, (a); }
    ret;
}
"""


@needs_tools
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_addresses_that_a_linker_fills_in(arch):
    """Code that is not linked (`-c`) has halves of addresses by symbol."""
    code = sass.assemble(ADDRESSES.replace("sm_90", arch), arch, options=("-c",))["k"]
    halves = [o for i in code for o in i.operands if isinstance(o, Relocation)]
    assert {(o.part, o.target) for o in halves} >= {("lo", "table"), ("hi", "table")}


@needs_tools
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_indirect_branches_and_lines_of_the_source(arch):
    """A branch through a table is followed to its targets: what they read is live at it. `.loc` gives the source's line."""
    code = (
        sass.assemble(JUMPS, arch, options=("-O0",))["k"]
        if arch != "sm_80"
        else sass.assemble(JUMPS.replace("sm_90", arch))["k"]
    )
    branch = next(i for i in code if i.opcode.startswith("BRX"))
    stores = [i for i in code if i.opcode in ("ST", "STG", "RED", "REDG", "ATOMG", "ATOM")]
    assert len(stores) >= 4
    assert branch.live
    assert branch.source == ("own.cu", 9)
    assert ("own.cu", 12) in {i.source for i in stores}
    assert all(len([r for r in i.live if r[0] == "R"]) <= code.registers for i in code)


@needs_tools
def test_a_tool_that_does_not_end_is_stopped(listing, monkeypatch):
    from pyptx.runtime import ptxas

    monkeypatch.setattr(ptxas, "_READ_TIMEOUT", 1e-4)
    with pytest.raises(PTXError, match="nvdisasm did not read this cubin within"):
        ptxas.run_nvdisasm(listing.cubin, "-c")
