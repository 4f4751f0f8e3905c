"""Chains that mix sums, differences and products have one carry flag, as ptxas translates them: `IADD3 d, P0, a, -b` sets the
carry of a + ~b + 1, and `IADD3.X d, a, ~b, RZ, P0` reads the flag of whatever came before.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np

from pyptx.simulator import load

from .assembling import assembled

ENGINES = (None, "jit")

LINKS = ("add.cc", "addc.cc", "sub.cc", "subc.cc", "mad.lo.cc", "mad.hi.cc", "madc.lo.cc", "madc.hi.cc")


def limbs(values: list[int], size: int) -> np.ndarray:
    return np.frombuffer(b"".join(x.to_bytes(size, "little") for x in values), np.uint8).copy()


def numbers(data: np.ndarray, size: int) -> list[int]:
    raw = data.tobytes()
    return [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]


def link(name: str, kind: str, a: int, b: int, c: int, flag: int) -> tuple[int, int]:
    """The result and the carry of a link, in exact integers."""
    width = int(kind[1:])
    top = 1 << width
    if name.startswith("mad"):
        x, y = (v - top * (kind[0] == "s" and v >> (width - 1)) for v in (a, b))
        a, b = (x * y >> width if ".hi" in name else x * y) % top, c
    elif name.startswith("sub"):
        b = top - 1 - b
    carry = flag if name[3] == "c" or name[:4] == "madc" else int(name.startswith("sub"))
    total = a + b + carry
    return total % top, total // top


def test_a_flag_read_by_the_other_family() -> None:
    """The pairs of the manual's borrow and carry: both ways."""
    source = """
    .version 9.5
    .target sm_90a
    .address_size 64
    .visible .entry k(.param .u64 out) {
        .reg .b32 %r<8>; .reg .b64 %d;
        ld.param.u64 %d, [out];
        mov.u32 %r5, 3;
        sub.cc.u32 %r0, %r5, 5; addc.u32 %r1, 0, 0;
        add.cc.u32 %r0, %r5, 5; subc.u32 %r2, 0, 0;
        sub.cc.u32 %r0, %r5, 3; addc.u32 %r3, 0, 0;
        st.global.v2.u32 [%d], {%r1, %r2}; st.global.u32 [%d+8], %r3;
        ret;
    }"""
    out = np.zeros(3, np.uint32)
    assembled(source).simulate(out, grid=1, block=1)
    assert out.tolist() == [0, 0xFFFF_FFFF, 1]


def test_chains_of_every_mix() -> None:
    random = Random(5)
    n = 64
    for kind in ("u32", "s32", "u64", "s64"):
        size = int(kind[1:]) // 8
        edges = [0, 1, (1 << 8 * size) - 1, 1 << (8 * size - 1), (1 << (8 * size - 1)) - 1]
        chains = [[random.choice(LINKS[::2][:3]), *random.choices(LINKS, k=3)] for _ in range(24)]
        body: list[str] = []
        for at, chain in enumerate(chains):
            for j, name in enumerate(chain):
                # each link reads the result of the one before, so that the values vary
                operands = ("%a", "%b", "%c") if not j else (f"%d{j - 1}", "%a", "%b")
                body.append(f"{name}.{kind} %d{j}, {', '.join(operands[: 3 if name.startswith('mad') else 2])};")
            body.append(f"addc.{kind} %f, 0, 0; st.global.{kind} [%o+{2 * size * at}], %d3;")
            body.append(f"st.global.{kind} [%o+{2 * size * at + size}], %f;")
        text = "\n".join(body)
        bits = 8 * size
        source = f"""
        .version 9.5
        .target sm_90a
        .address_size 64
        .visible .entry k(.param .u64 given, .param .u64 out) {{
            .reg .b{bits} %a, %b, %c, %d<4>, %f; .reg .b64 %i, %o; .reg .b32 %t;
            ld.param.u64 %i, [given]; ld.param.u64 %o, [out];
            mov.u32 %t, %tid.x;
            mad.wide.u32 %i, %t, {3 * size}, %i; mad.wide.u32 %o, %t, {2 * size * len(chains)}, %o;
            ld.global.{kind} %a, [%i]; ld.global.{kind} %b, [%i+{size}]; ld.global.{kind} %c, [%i+{2 * size}];
            {text}
            ret;
        }}"""
        given = [random.choice((random.choice(edges), random.getrandbits(bits))) for _ in range(3 * n)]
        out = np.zeros(2 * size * len(chains) * n, np.uint8)
        assembled(source).simulate(limbs(given, size), out, grid=1, block=n)
        found = numbers(out, size)
        for lane in range(n):
            a, b, c = given[3 * lane : 3 * lane + 3]
            for at, chain in enumerate(chains):
                flag, d = 0, 0
                for j, name in enumerate(chain):
                    operands = (a, b, c) if not j else (d, a, b)
                    d, flag = link(name, kind, *operands, flag)
                where = 2 * (lane * len(chains) + at)
                assert found[where : where + 2] == [d, flag], (kind, chain, a, b, c)


def test_saturated_links() -> None:
    """`.sat` clamps the exact a + b + CC and a + ~b + CC."""
    source = """
    .version 9.5
    .target sm_90a
    .address_size 64
    .visible .entry k(.param .u64 given, .param .u64 out) {
        .reg .b32 %a, %b, %s, %r<4>; .reg .b64 %i, %o; .reg .b32 %t;
        ld.param.u64 %i, [given]; ld.param.u64 %o, [out];
        mov.u32 %t, %tid.x;
        mad.wide.u32 %i, %t, 8, %i; mad.wide.u32 %o, %t, 16, %o;
        ld.global.v2.u32 {%a, %b}, [%i];
        sub.cc.u32 %s, %a, %b; addc.sat.s32 %r0, %a, %b;
        sub.cc.u32 %s, %a, %b; subc.sat.s32 %r1, %a, %b;
        add.cc.u32 %s, %a, %b; addc.sat.s32 %r2, %a, %b;
        add.cc.u32 %s, %a, %b; subc.sat.s32 %r3, %a, %b;
        st.global.v4.u32 [%o], {%r0, %r1, %r2, %r3};
        ret;
    }"""
    values = [0, 1, -1, 2**31 - 1, -(2**31), 12345, -99]
    pairs = [(a, b) for a in values for b in values]
    given = np.array(pairs, np.int32)
    out = np.zeros((len(pairs), 4), np.int32)
    assembled(source).simulate(given, out, grid=1, block=len(pairs))
    for (a, b), row in zip(pairs, out.tolist(), strict=True):
        x, y = a % 2**32, b % 2**32
        less, over = int(x >= y), int(x + y >= 2**32)
        exact = [a + b + less, a + ~b + less, a + b + over, a + ~b + over]
        assert row == [max(-(2**31), min(2**31 - 1, v)) for v in exact], (a, b)


def test_nvcc_divides_128_bits() -> None:
    """nvcc 13.5's code for `unsigned __int128 / unsigned __int128` reads the flag of `sub.cc` as that of a sum."""
    path = Path(__file__).parent.parent / "data" / "ptx" / "nvcc_int128_division.ptx"
    random = Random(3)
    sizes = (1, 20, 63, 64, 65, 100, 127, 128)
    a, b = ([random.getrandbits(random.choice(sizes)) | 1 for _ in range(512)] for _ in range(2))
    out = np.zeros(16 * 512, np.uint8)
    load(path)["divide"].simulate(limbs(a, 16), limbs(b, 16), out, grid=4, block=128)
    assert numbers(out, 16) == [x // y for x, y in zip(a, b, strict=True)]
