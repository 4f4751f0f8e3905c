"""Variables: their declarations, attributes and initial values; textures, surfaces and samplers."""

from __future__ import annotations

from .draw import INTEGERS, Draw

_SCALARS = (
    "0 1 -1 255 65536 4294967295 4294967296 18446744073709551615 18446744073709551616 0x7F 0xFFFFFFFF 0777 08 0b101 1U 5U 0x1U 1.0 -1.5 .5 1. 1e5"
    " 1e400 1e-400 0f3F800000 0f3F8 0d3FF0000000000000 -0f3F800000 (0f3F800000) WARP_SZ -WARP_SZ 1+1 (1+2)*3 1<<4 1>2 1?2:3 1.0+2.0 1.0<2.0"
    " 1+1.0 ~0 !0 !1.0 (.s64)1 (.u64)-1 (.f32)1 1/0 7%4 - +1 ++1 --1 'a' \"a\" x 1|2 1||0 1&&1 3^1 (1 ((1)) () {1} {} true inf nan 1_000 0x 0b2"
).split()


def scalars(d: Draw) -> str:
    lines: list[str] = []
    for i in range(d.number(1, 2)):
        scalar = d.type()
        plain = (
            ("1.0", "-1.5", "0f3F800000", "0d3FF0000000000000", "1.0+2.0")
            if scalar[1] == "f"
            else ("1", "-1", "0x7F", "1<<4", "7%4", "WARP_SZ")
        )
        value = d.one(*plain) if d.chance(0.5) else d.random.choice(_SCALARS)
        space = d.pick(".global .global .const") if d.chance(0.96) else d.pick(".shared .local .param .reg")
        lines.append(f"{d.maybe(0.2, '.visible ')}{space} {scalar} v{i}{d.tag} = {value};")
    return "\n".join(lines) + "\n"


def lists(d: Draw) -> str:
    """Lists, mostly as deep as their variable and not longer."""
    floats = d.chance(0.2)
    dimensions = [d.number(1, 3) for _ in range(d.random.choice((1, 1, 2, 3)))]
    vector = d.random.choice((0, 0, 0, 0, 2, 4))

    def value() -> str:
        if d.chance(0.06):
            return d.one("1>0", "1?2:3", "(1)", "1.0", "x", "generic(x)", "0xFF(x)", "-1", "{}", "1 2", "")
        return d.one("1.0", "0f3F800000") if floats else d.one("1", "2", "-3", "0x10")

    def level(shape: list[int]) -> str:
        if not shape:
            return value() if d.chance(0.98) else "{" + value() + "}"
        exact = vector and len(shape) == 1
        count = shape[0] if exact and d.chance(0.9) else d.number(0, shape[0]) + d.random.choices((0, 1), (25, 1))[0]
        comma = "," if d.chance(0.985) else d.one(" ", ",,", ";")
        return "{" + comma.join(level(shape[1:]) for _ in range(count)) + d.maybe(0.015, ",") + "}"

    whole = [*dimensions, vector] if vector else dimensions
    sizes = "".join(f"[{n}]" if i or d.chance(0.8) else "[]" for i, n in enumerate(dimensions))
    if vector and d.chance(0.4):
        whole, sizes = [vector], ""
    scalar = d.one(".f32", ".f64") if floats else "." + d.one("u8", "u16", "u32", "u64", "s32", "b8", "b32")
    text = level(whole) if d.chance(0.97) else value()
    x = d.maybe(0.4, f".global .b32 x{d.tag};\n")
    return f"{x}.{d.pick('global const')} {f'.v{vector} ' if vector else ''}{scalar} t{d.tag}{sizes} = {text.replace('x', 'x' + d.tag) if 'x' in text and '0x' not in text else text};\n"


def addresses(d: Draw) -> str:
    def symbol() -> str:
        return d.pick("g g g g c f k s x t z tx") + d.tag

    def reference() -> str:
        name, offset = (
            symbol(),
            d.maybe(0.35, d.pick("+4 +-4 +(8) +4*2 -4 +1.0 +x +WARP_SZ +~1 +4U +0x10 + *2 [1] .x +8+8 +1?2:3")),
        )
        form = d.random.choices(
            (
                f"{name}{offset}",
                f"generic({name}){offset}",
                f"generic({name}{offset})",
                f"({name})",
                f"generic(generic({name}))",
                f"4+{name}",
                f"~{name}",
            ),
            (50, 25, 1, 1, 1, 1, 1),
        )[0]
        return form

    def value() -> str:
        mask = d.pick(
            "0xFF 0xFF 0xFF00 0xFF000000 0xFF00000000000000 255 0xFFFF 0xF0 0x0 0377 0xFFU 0xFF0000000000000000 (0xFF)"
        )
        return (
            f"{mask}({d.one(reference(), reference(), reference(), '4', '-1', '1.0', '')})"
            if d.chance(0.25)
            else reference()
        )

    scalar = "." + (d.pick("u64 u64 u32") if d.chance(0.75) else d.random.choice([*INTEGERS, "f32", "u8", "u8"]))
    before = [
        f".global .b32 g{d.tag};", f".const .b32 c{d.tag};", f".func f{d.tag}() {{ ret; }}", f".entry k{d.tag}() {{ ret; }}",
        f".shared .b32 s{d.tag};", f".global .texref tx{d.tag};",
    ]  # fmt: skip
    before = d.random.sample(before, d.number(3, 6)) if d.chance(0.3) else before
    variable = (
        f".global {scalar} x{d.tag} = {value()}" if d.chance(0.5)
        else f".{d.pick('global const')} {scalar} t{d.tag}[{d.one('', '4')}] = {{{', '.join(d.one(value(), value(), '0') for _ in range(d.number(1, 4)))}}}"
    )  # fmt: skip
    more = d.maybe(0.15, f", z{d.tag} = {value() if '[' not in variable else '{' + value() + '}'}")
    return "\n".join(before) + f"\n{variable}{more};\n"


def declarations(d: Draw) -> str:
    """Spaces, alignments, types, sizes."""

    def one(place: str) -> str:
        space = (
            d.pick(".global .const .shared" if place == "module" else ".local .shared .param .reg .global .const")
            if d.chance(0.96)
            else d.pick(".local .param .reg .tex .surf .sreg")
        )
        link = d.maybe(
            0.25 if place == "module" else 0.02,
            d.one(".visible ", ".extern ", ".weak ", ".common ", ".visible .extern "),
        )
        align = d.maybe(0.2, f".align {d.pick('1 2 4 8 16 128 1024 0x10 4U 3 0 1.0 -4 (4) 4294967296 2147483648')} ")
        vector = d.maybe(0.12, d.pick(".v2 .v2 .v4 .v4 .v3 .v8") + " ")
        head = [space + " ", align, vector, d.type() + " "]
        if d.chance(0.03):
            d.random.shuffle(head)
        items: list[str] = []
        for _ in range(1 + d.chance(0.2)):
            name = d.name("a b c") if d.chance(0.5) else f"n{d.number(0, 99)}{d.tag}"
            size = d.maybe(0.35 if space != ".reg" else 0.05, f"[{d.maybe(0.9, d.count())}]") + d.maybe(
                0.07, f"[{d.maybe(0.9, d.count())}]"
            )
            size = d.maybe(0.08 if space != ".reg" else 0.3, f"<{d.count()}>") or size
            items.append(name + size)
        return f"{link}{''.join(head)}{(', ' if d.chance(0.97) else ' ').join(items)};"

    lines = [one("module") for _ in range(d.number(0, 2))]
    body = [one("body") for _ in range(d.number(0 if lines else 1, 2))]
    return "\n".join(lines) + "\n" + (d.kernel("\n".join(body)) if body else "")


def attributes(d: Draw) -> str:
    inside = d.random.choices(
        (
            ".managed",
            ".unified(1, 2)",
            ".managed, .unified(1,2)",
            ".unified",
            ".managed, .managed",
            "",
            ".unified(1)",
            ".unified(0x1U, 3)",
            ".unified(-1, 2)",
            ".foo",
            "managed",
        ),
        (30, 3, 1, 1, 2, 1, 1, 1, 1, 1, 1),
    )[0]
    attribute = (
        f".attribute({inside})"
        if d.chance(0.95)
        else d.one(".attribute", ".attribute(", f".attribute[{inside}]", f".attribute {inside}")
    )
    space = d.pick(".global .global .global .const .shared")
    kind = d.number(0, 9)
    if kind < 7:
        parts = [space, attribute, d.maybe(0.2, ".align 8"), d.maybe(0.1, ".v2"), d.type()]
        if d.chance(0.25):
            d.random.shuffle(parts)
        return f"{d.maybe(0.3, d.one('.visible ', '.extern ', '.weak ', '.common '))}{' '.join(p for p in parts if p)} a{d.tag}{d.maybe(0.2, '[4]')}{d.maybe(0.15, ' = 1')};\n"
    return f".func {attribute} f{d.tag}() {d.one(';', '{ ret; }')}\n"


def textures(d: Draw) -> str:
    fields = d.pick(
        "addr_mode_0 addr_mode_1 filter_mode width height depth channel_data_type channel_order normalized_coords force_unnormalized_coords array_size num_samples foo"
    )
    values = "wrap linear nearest mirror clamp_to_edge 1 0 -1 0x10 4U 1.5 foo clamp_ogl".split()
    initial = d.maybe(
        0.15, f" = {{ {', '.join(f'{fields} = {d.random.choice(values)}' for _ in range(d.number(0, 2)))} }}"
    )
    kind = d.pick("texref texref surfref samplerref")
    lines = [
        f"{d.maybe(0.2, d.one('.visible ', '.extern ', '.weak '))}{d.pick('.global .global .global .tex .const .shared') if d.chance(0.2) else '.global'} .{kind} t{d.tag}{d.maybe(0.08, '[4]')}{initial};"
    ]
    if d.chance(0.4):
        lines.append(f".global .{d.pick('texref surfref samplerref')} s{d.tag};")
    uses = [
        f"tex.{d.pick('1d 2d 3d a1d a2d cube')}.v4.{d.pick('f32 s32 u32')}.{d.pick('f32 s32')} {{%f1,%f2,%f3,%f4}}, [{d.name('t t t s p x')}{d.maybe(0.1, ', ' + d.name('s t'))}, {{{d.one('%f1', '%f1, %f2', '%f1,%f2,%f3,%f4')}}}];",
        f"{d.pick('txq txq suq')}.{d.pick('width height depth array_size channel_order normalized_coords')}.b32 %r1, [{d.name('t t t s p')}];",
        f"sust.b.{d.pick('1d 2d')}.b32.{d.pick('trap clamp zero')} [{d.name('t t s')}, {{{d.one('%r1', '%r1,%r2')}}}], {{%r1}};",
        f"mov.u64 %d1, {d.name('t s p')};", f"ld.global.u64 %d1, [{d.name('t s')}];", f"ld.param.u64 %d1, [p{d.tag}{d.maybe(0.3, '+4')}];",
        f"istypep.{d.pick('texref surfref samplerref')} %p1, {d.one('%d1', d.name('t s p'))};", f"cvta.global.u64 %d1, {d.name('t s')};",
    ]  # fmt: skip
    body = ".reg .b32 %r<5>; .reg .b64 %d<3>; .reg .f32 %f<5>; .reg .pred %p<2>;\n" + "\n".join(
        d.random.sample(uses, d.number(0, 2))
    )
    parameter = d.one(
        "", "", f".param .{d.pick('texref surfref samplerref u64')} p{d.tag}", f".param .u64 .ptr .global p{d.tag}"
    )
    return "\n".join(lines) + "\n" + d.kernel(body, parameter)
