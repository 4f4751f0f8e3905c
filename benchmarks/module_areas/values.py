"""Values in instructions: literals, constant expressions, addresses."""

from __future__ import annotations

from .draw import Draw

_INTEGERS = (
    "0 1 7 -1 127 255 256 65535 65536 2147483648 4294967295 4294967296 -4294967296 9223372036854775807 18446744073709551615 18446744073709551616 184467440737095516150"
    " 0x0 0xFF 0XFF 0xffffffffU 0x10000000000000000 00 07 08 0777 01777777777777777777777 02000000000000000000000 0b0 0B11 0b2 0b 0x 1U 1u 0U 010U 0b1U 1UL 1L WARP_SZ"
).split()
_FLOATS = (
    "0.0 1.0 -1.0 1. .5 -.5 1e5 1E5 1e+5 1e-5 1.5e3 1e400 1e-320 1e 1.e5 .e5 0f00000000 0f3F800000 0F3f800000 0f3F80000 0f3F8000000 0d3FF0000000000000 0D3FF0000000000000 0d3FF"
    " -0f3F800000 0fnan inf 1.0f 1.0F 0.1d 1..0 1.0.0"
).split()


def literals(d: Draw) -> str:
    scalar = d.pick("u32 s32 b32 u64 s64 b64 u16 s16 b16 f32 f64 f32 f64 u8 pred")
    odd = d.chance(0.25)
    pool = _FLOATS if (scalar[0] == "f") != odd else _INTEGERS
    value = d.maybe(0.05, d.one("+", "~", "!", "- ")) + d.random.choice(pool)
    register = {"16": "%h1", "64": "%d1", "u8": "%h1", "ed": "%p1"}.get(scalar[-2:], "%r1")
    register = register if scalar[0] != "f" or scalar == "f64" else "%f1"
    form = d.one(f"mov.{scalar} {register}, {value};", f"add.{scalar} {register}, {register}, {value};", f"st.global.{scalar} [%d1], {value};",
                 f"setp.eq.{scalar} %p1, {register}, {value};", f"cvt.{d.pick('u32.' + scalar + ' s64.' + scalar)} %r1, {value};", f"bar.sync {value};",
                 f"shl.b32 %r1, %r1, {value};", f"ld.global.b32 %r1, [%d1+{value}];")  # fmt: skip
    return d.kernel(f".reg .b16 %h<2>; .reg .b32 %r<3>; .reg .b64 %d<3>; .reg .f32 %f<2>; .reg .pred %p<2>;\n{form}")


def expression(d: Draw, depth: int = 0) -> str:
    """A constant expression, mostly of integers."""
    if depth > 2 or d.chance(0.3):
        return (
            d.pick("0 1 2 3 7 0x10 010 5U WARP_SZ 4294967295 18446744073709551615 9223372036854775808")
            if d.chance(0.96)
            else d.pick("1.0 0f3F800000 x %r1 0d0 L")
        )
    kind = d.number(0, 9)
    gap = d.pick("_ _ _ __").replace("_", " ") if d.chance(0.3) else ""
    if kind < 5:
        operator = (
            d.pick("+ - * / % << >> & | ^ && || == != < > <= >=")
            if d.chance(0.98)
            else d.pick("= ++ ** , <> => ! ~ . ?")
        )
        spaced = " " if operator == "%" and d.chance(0.8) else gap
        return f"{expression(d, depth + 1)}{spaced}{operator}{spaced}{expression(d, depth + 1)}"
    if kind < 7:
        return d.one("-", "+", "~", "!", "-", "- ", "~~", "(.s64)", "(.u64)", "(.s64) ", "(.u32)") + expression(
            d, depth + 1
        )
    if kind < 9:
        return f"({gap}{expression(d, depth + 1)}{gap})" if d.chance(0.98) else f"({expression(d, depth + 1)}"
    return f"{expression(d, depth + 1)} ? {expression(d, depth + 1)} : {expression(d, depth + 1)}"


def expressions(d: Draw) -> str:
    value = expression(d)
    form = d.random.choice((
        f"mov.u32 %r1, {value};", f"mov.s64 %d1, {value};", f"add.s32 %r1, %r1, {value};", f"ld.global.b32 %r1, [%d1+{value}];", f"ld.shared.b32 %r1, [s+{value}];",
        f"mov.u64 %d1, s+{value};", f"shl.b32 %r1, %r1, {value};", f"call f{d.tag}, ({value});", f"mov.b64 %d1, {{%r1, {value}}};", f"st.shared.b32 [s], {value};",
    ))  # fmt: skip
    text = d.kernel(f".reg .b32 %r<3>; .reg .b64 %d<3>; .shared .b32 s[4];\n{form}")
    if d.chance(0.3):
        return f".global .{d.pick('u32 s32 u64 b8 s16')} v{d.tag}{d.one(' = ' + value, '[2] = {' + value + ', ' + expression(d) + '}')};\n"
    return f".func f{d.tag}(.reg .b32 p) {{ ret; }}\n{text}" if "call" in form else text


def addresses(d: Draw) -> str:
    base = d.pick("%d1 %d1 s s g c l p %r1 %h1 0 16 f q _ %tid.x L")
    offset = d.random.choices(
        (
            "",
            f"+{d.pick('4 8 0x10 4U WARP_SZ')}",
            f"-{d.pick('4 8')}",
            f"+-{d.pick('4 8')}",
            f"+{expression(d)}",
            d.one("+ 4", "+(4)", "+4+4", "++4", "*2", "+%r1", "+s", "+1.0", "+", ", 4", "+4 % 3", "+~4"),
        ),
        (30, 25, 6, 10, 10, 12),
    )[0]
    address = (
        f"[{base}{offset}]"
        if d.chance(0.88)
        else d.one(
            f"{base}[{d.pick('0 1 %r1')}]",
            f"[{base}[1]]",
            f"{base}",
            f"[[{base}]]",
            f"[{base}",
            f"[ {base} {offset} ]",
            "[]",
            f"({base})",
        )
    )
    space = d.one("global", "shared", "local", "const", "param", "", "shared::cta", "global", "shared")
    where = f".{space}" if space else ""
    form = d.random.choice((
        f"ld{where}.b32 %r2, {address};", f"st{where}.b32 {address}, %r2;", f"ld{where}.v2.b32 {{%r1,%r2}}, {address};", f"atom{where}.add.u32 %r2, {address}, 1;",
        f"prefetch{where}.L1 {address};", f"mov.u64 %d1, {base}{offset};", f"cvta{where or '.global'}.u64 %d1, {base}{offset};", f"ld{where}.b32 %r2, {address};",
    ))  # fmt: skip
    text = (
        ".global .align 8 .b32 g[4];\n.const .b32 c[4];\n.func f() { ret; }\n".replace(" g[", f" g{d.tag}[")
        .replace(" c[", f" c{d.tag}[")
        .replace(" f()", f" f{d.tag}()")
    )
    if base in ("g", "c", "f") and d.chance(0.9):
        form = form.replace(f"[{base}", f"[{base}{d.tag}").replace(f" {base}", f" {base}{d.tag}")
    return text + d.kernel(
        f".reg .b16 %h<2>; .reg .b32 %r<3>; .reg .b64 %d<3>; .shared .align 8 .b32 s[4]; .local .b32 l[4];\nL:\n{form}",
        ".param .align 8 .b8 p[16]",
    )
