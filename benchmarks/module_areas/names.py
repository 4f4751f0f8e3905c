"""Names: scopes, ranges and vectors of registers, identifiers, labels."""

from __future__ import annotations

from .draw import Draw


def scopes(d: Draw) -> str:
    def block(depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(d.number(1, 4)):
            name = d.pick("a b %r1 %r2 f")
            lines.append(
                d.random.choice((
                    f".reg {d.pick('.b32 .b32 .b32 .b64 .pred')} {name};",
                    f"{{ .reg .b32 %r<{d.number(1, 4)}>; mov.b32 %r1, a; }}",
                    f"{d.pick('.shared .local .param')} .b32 {name};",
                    f"mov.b32 {d.pick('a b %r1 %r0')}, {d.pick('a b %r1 %r2 1 f')};",
                    f"{d.pick('a b L L M f')}:",
                    f"bra {d.pick('L L M a')};",
                    f"ld.shared.b32 %r0, [{d.pick('a b %r1')}];",
                    f"@{d.pick('%p1 %p1 a')} bra L;",
                ))
            )  # fmt: skip
            if depth < 2 and d.chance(0.3):
                lines += ["{", *block(depth + 1), "}"]
        return lines

    head = d.maybe(0.85, ".reg .b32 %r<3>, a; .reg .pred %p<2>;\n") + d.maybe(0.6, "L:\n")
    return d.maybe(0.2, d.one(".global .b32 a;\n", ".shared .b32 b;\n", ".const .b32 a[4];\n")) + d.kernel(
        head + "\n".join(block(0))
    )


def ranges(d: Draw) -> str:
    stem = d.pick("%r %r %r a %r1 r_ $r %tid %ti _r")
    count = d.count()
    lines = [f".reg .b32 {stem}<{count}>{d.maybe(0.2, ', ' + d.pick('%r %q a b') + '<' + d.count() + '>')};"]
    if d.chance(0.3):
        lines.append(
            f".reg {d.pick('.b32 .u32 .f32 .v2 .pred')} {d.one(stem + '1', stem, stem + '0', stem + '<2>', 'b')};"
        )
    if d.chance(0.25):
        lines.append(
            f"{d.pick('.shared .local .global .param')} .b32 {d.one(stem + '1', 'v<3>', 'v<0>', stem + '<4>')};"
        )
    numbers = "0 0 0 0 1 01 00 4 15 x"
    for _ in range(d.number(1, 2)):
        lines.append(f"mov.b32 {stem}{d.pick(numbers)}, {d.one(stem + d.pick(numbers), '1', 'v1')};")
    if d.chance(0.15):
        lines = [lines[0], "{", *lines[1:], "}"]
    return d.kernel(d.shuffled(lines, 0.05))


def vectors(d: Draw) -> str:
    width = d.pick("2 4")
    scalar = d.pick("b32 u32 f32 b64 b16 u8 s32")
    lines = [
        f".reg .v{width} .{scalar} v, w; .reg .{scalar} %r<9>; .reg .b64 %d<4>; .reg .v2 .b32 u; .shared .align 16 .v{width} .{scalar} s[4];"
    ]
    member = d.one(*".x .y .z .w .r .g .b .a .x .y .x .y .b0 .h1 .X .xy .0".split())
    for _ in range(d.number(1, 2)):
        lines.append(
            d.random.choice((
                f"mov.{scalar} %r1, v{member};", f"mov.{scalar} v{member}, %r1;", f"mov.v{width}.{scalar} v, w;", f"mov.{scalar} v, w;",
                f"mov.v{width}.{scalar} v, {{{', '.join(['%r1'] * int(d.pick('2 4')))}}};", f"ld.shared.v{d.pick('2 4')}.{scalar} {d.one('v', '{%r1,%r2}', '{%r1,%r2,%r3,%r4}', '{v.x, v.y}', '{_, %r1}')}, [s];",
                f"st.shared.v{width}.{scalar} [s], {d.one('v', '{%r1,%r2}', '{%r1,%r2,%r3,%r4}', '{1,2}', 'u')};", f"mov.b64 %d1, {d.one('{%r1,%r2}', 'u', 'v', '{u.x, u.y}', '{%r1, 0}')};",
                f"mov.b64 {d.one('{%r1,%r2}', '{_, %r1}', 'u', '{u.x,u.y}')}, %d1;", f"add.{scalar} %r1, v{member}, {d.one('%r2', 'v.y', '1', 'w.x')};",
                f"mov.b32 {{{d.one('%r1,%r2', '%r1,%r1', '_,_')}}}, %r3;",
            ))
        )  # fmt: skip
    return d.kernel("\n".join(lines))


def identifiers(d: Draw) -> str:
    odd = (
        "_ $ % _a $a %a a$b a%b a.b a:b a::b 1a a1 __ $$ %% _$ %_ a_ WARP_SZ warp_sz generic add ret reg u32 %tid %laneid %warpid %ctaid.x %envreg0"
        " %pm0 %is_explicit_cluster %clock64 %nosuch texref debug A é aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    ).split()
    name = d.random.choice(odd)
    other = name if d.chance(0.8) else d.random.choice(odd)
    kind = d.number(0, 5)
    if kind == 0:
        return f".global .b32 {name};\n" + d.kernel(f".reg .b64 %d<2>; mov.u64 %d1, {other};")
    if kind == 1:
        return d.kernel(f".reg .b32 {name}; mov.b32 {other}, 1;")
    if kind == 2:
        return d.kernel(f"{name}: bra {other};")
    if kind == 3:
        return d.kernel(f".reg .b32 %r<2>; .shared .b32 {name}; ld.shared.b32 %r1, [{other}];")
    if kind == 4:
        return d.kernel(f".reg .b32 %r<2>; ld.param.b32 %r1, [{other}];", f".param .b32 {name}")
    return d.kernel(
        f".reg .b32 %r<2>; {d.maybe(0.5, name + ': ')}mov.b32 %r1, {d.pick('%tid.x %laneid %ctaid.y %clock %r0')};"
    )


def labels(d: Draw) -> str:
    lines: list[str] = [".reg .pred %p<2>; .reg .b32 %r<3>;"]
    for _ in range(d.number(1, 5)):
        lines.append(
            d.random.choice((
                f"{d.pick('L M N')}:", f"{d.pick('L M N')}: {d.pick('L M N')}:", f"bra {d.pick('L M N')};", f"@%p1 bra {d.pick('L M')};", "{ L: bra L; }",
                f"@!%p1 bra.uni {d.pick('L M')};", f"{{ bra {d.pick('L M')}; }}", f"mov.b32 %r1, {d.pick('L M %r2')};", f"{d.pick('L M')}: add.u32 %r1, %r1, 1;",
                f"bra {d.pick('L+4 (L) %r1 1 k [L] L,M')};" if d.chance(0.2) else "bra L;",
            ))
        )  # fmt: skip
    return d.kernel("L:\n" + "\n".join(lines) if d.chance(0.6) else "\n".join(lines))
