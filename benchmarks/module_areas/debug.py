"""Debug data: sections, files, lines."""

from __future__ import annotations

from .draw import Draw


def sections(d: Draw) -> str:
    def datum() -> str:
        kind = d.pick(".b8 .b8 .b16 .b32 .b64") if d.chance(0.97) else d.pick(".u8 .b128 .f32 .byte")
        if kind in (".b32", ".b64") and d.chance(0.5):
            what = d.one(
                ".debug_abbrev", ".debug_info+4", "L", "L+4", "L-M", "k", ".debug_str+-4", ".debug_loc-4", "L-4", ".b8"
            )
            return f"{kind} {what.replace('L', 'L' + d.tag).replace('M', 'M' + d.tag)}"
        numbers = [
            d.pick("0 1 255 0x7f 010")
            if d.chance(0.9)
            else d.pick("256 -1 -128 -129 65535 65536 -0 1.0 1+1 (1) 1U 0b1 WARP_SZ 4294967296 18446744073709551616")
            for _ in range(d.number(1, 4))
        ]
        return f"{kind} {(', ' if d.chance(0.98) else ' ').join(numbers)}{d.maybe(0.01, ',')}"

    lines: list[str] = []
    for i in range(d.number(1, 2)):
        name = (
            d.pick(".debug_info .debug_abbrev .debug_str .debug_line .debug_loc .foo")
            if d.chance(0.96)
            else d.pick("debug_info .b8 .global . .debug::x .1")
        )
        labels = d.maybe(0.5 if not i else 0.2, f"L{d.tag}:\n") + d.maybe(0.2, f"M{d.tag}:\n")
        data = d.one("\n", "\n", " ").join(datum() for _ in range(d.number(0, 4)))
        lines.append(f".section {name}\n{{\n{labels}{data}\n}}{d.maybe(0.03, ';')}")
    return "\n".join(lines) + "\n" + d.maybe(0.5, d.kernel(""))


def line_numbers(d: Draw) -> str:
    files = [
        f'.file {d.pick("1 1 2 3 0x1 1U 0 -1 1.0 4294967296") if d.chance(0.15) else i} "x{i}.cu"{d.maybe(0.15, d.one(", 1, 2", ",1,2", ", 1", ", 1, 2, 3", ", 0x10, 5U"))}'
        for i in range(1, d.number(2, 3))
    ]
    if d.chance(0.05):
        files.append(d.one(".file 1", '.file "x"', ".file 1 x", '.file 3 "a" "b"', '.file 1, "x"', '.file 2 "";'))

    def loc() -> str:
        number = d.pick("1 1 1 2 3") if d.chance(0.9) else d.pick("0 -1 9 1.0 0x1 1U (1) 4294967296")
        tail = ""
        if d.chance(0.3):
            name = d.one("L", "L+4", "k", ".debug_str", "L-4", ".debug_str+5", "1")
            tail = f", function_name {name.replace('L', 'L' + d.tag)}" + d.maybe(
                0.7, f", inlined_at {d.pick('1 1 2')} {d.pick('5 5 6')} 3"
            )
        return f".loc {number} {d.pick('5 6 0 0x7')} {d.one('3', '3', '0', '')}{tail}{d.maybe(0.04, ';')}"

    body = [
        loc(),
        "add.u32 %r1, %r1, 1;",
        d.maybe(0.6, loc()),
        d.maybe(0.3, loc()),
        d.maybe(0.1, ".loc_intermediate 1 2 3"),
    ]
    text = "\n".join(files) + "\n" + d.kernel(".reg .b32 %r<2>;\n" + d.one("\n", "\n", " ").join(body))
    if d.chance(0.4):
        text += f".section .debug_str\n{{\nL{d.tag}:\n.b8 102, 0\n}}\n"
    if d.chance(0.1):
        text = text.replace(" ", "\n", 3)
    return text
