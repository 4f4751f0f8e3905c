"""Functions: linking, aliases, what branches and calls may reach, prototypes, parameters, results, directives."""

from __future__ import annotations

from .draw import Draw

_DIRECTIVES = (
    ".maxntid 256", ".maxntid 16,16", ".maxntid 8, 8, 4", ".reqntid 32", ".reqntid 32,2,1", ".minnctapersm 2", ".maxnreg 64",
    ".local_maxnreg 32", ".reqnctapercluster 2", ".reqnctapercluster 2,1,1", ".maxclusterrank 8", ".explicitcluster",
    ".blocksareclusters", ".noreturn", ".abi_preserve 4", ".abi_preserve_control 2", ".minperctamemory 1024",
    '.language "ptx"', ".maxnctapersm 2", '.pragma "nounroll";', ".maxntid", ".maxntid 0", ".maxntid 1,2,3,4", ".maxnreg 1,2",
    ".maxntid 0x20", ".maxntid 1+1", ".maxntid -1", ".maxnreg 4294967296", ".noreturn 1", ".explicitcluster 1",
)  # fmt: skip
_PARAMETERS = (
    "", ".reg .b32 p", ".param .b32 p", ".param .b64 p", ".reg .f32 p", ".param .align 8 .b8 p[8]", ".param .b8 p[]",
    ".reg .b32 p, .reg .b32 q", ".param .b32 p, .param .f32 q", ".param .align 16 .b8 p[16], .param .b32 q", ".reg .pred p",
)  # fmt: skip
_RESULTS = ("", "", "(.reg .b32 r) ", "(.param .b32 r) ", "(.param .align 8 .b8 r[8]) ", "(.reg .b32 r, .reg .b32 s) ")


def linking(d: Draw) -> str:
    """Things declared and defined again, with other linking, types, parameters."""
    lines: list[str] = []
    kind = d.pick("variable variable func func entry mixed")
    shape = (d.pick(".global .global .const .shared"), d.type(0), d.maybe(0.3, "[4]"), d.maybe(0.15, ".align 8 "))
    parameters, returns = d.one(*_PARAMETERS), d.one(*_RESULTS)
    for _ in range(d.number(1, 4)):
        name = d.name("a a a b")
        link = d.one("", "", ".visible ", ".visible ", ".extern ", ".extern ", ".weak ", ".weak ", ".common ")
        what = kind if kind != "mixed" else d.pick("variable func entry")
        if d.chance(0.1):
            shape = (d.pick(".global .const .shared"), d.type(), d.maybe(0.3, d.one("[4]", "[]", "[8]")), "")
        if d.chance(0.1):
            parameters, returns = d.one(*_PARAMETERS), d.one(*_RESULTS)
        if what == "variable":
            space, scalar, size, align = shape
            value = "{1}" if size else "1"
            value = value.replace("1", "1.0") if scalar[1] == "f" else value
            initial = d.maybe(0.2, f" = {value}") if space != ".shared" else ""
            lines.append(f"{link}{space} {align}{scalar} {name}{size}{initial};")
        else:
            body = d.one(";", " { ret; }", " { ret; }")
            result = returns if what == "func" else ""
            mine = (
                parameters
                if what == "func"
                else parameters.replace(".reg .pred", ".param .b8").replace(".reg", ".param")
            )
            directive = d.maybe(0.06, " .noreturn")
            lines.append(f"{link}.{what} {result}{name}({mine}){directive}{body}")
    return "\n".join(lines) + "\n"


def alias(d: Draw) -> str:
    parameters, returns = d.one(*_PARAMETERS[:6]), d.one(*_RESULTS[:4])
    other = parameters if d.chance(0.93) else d.one(*_PARAMETERS)
    noreturn = "" if returns else d.maybe(0.1, " .noreturn")

    def function(name: str, formals: str, body: bool) -> str:
        link = d.one(".visible ", ".weak ", ".extern ", ".common ") if d.chance(0.3) else ""
        ending = " { ret; }" if body != d.chance(0.07) and link != ".extern " else ";"
        mark = noreturn if d.chance(0.95) else ""
        return f"{link}.func {returns}{name}{d.tag}({formals}){mark}{ending}"

    lines = [function("f", parameters, body=d.chance(0.8)), function("g", other, body=False)]
    if d.chance(0.3):
        lines.append(d.one(f".func h{d.tag}() {{ ret; }}", f".global .b32 h{d.tag};", f".entry h{d.tag}() {{ ret; }}"))
    for _ in range(1 + d.chance(0.15)):
        first, second = ("g", "f") if d.chance(0.85) else (d.pick("g f h"), d.pick("g f h"))
        sep = d.one(",", " ", " = ", ", , ") if d.chance(0.05) else ", "
        tail = d.one(", x;", "+0;", "", ";;") if d.chance(0.05) else ";"
        text = f".alias {first}{d.tag}{sep}{second}{d.tag}{tail}"
        lines.append(text if d.chance(0.95) else d.kernel(text))
    if d.chance(0.15):
        lines.append(function("g", other, body=d.chance(0.5)))
    return d.shuffled(lines, 0.05)


def branch_targets(d: Draw) -> str:
    labels = [f"L{i}" for i in range(d.number(1, 3))]
    names = ", ".join(d.random.choice([*labels, "M"] if d.chance(0.1) else labels) for _ in range(d.number(1, 4)))
    if d.chance(0.12):
        names = names.replace(", ", d.one(" ", ",, ", ", , ", ";")) + d.maybe(0.3, ",")
    lines = ["\t.reg .b32 %r<4>; .reg .pred %p<2>;", f"\tT: .branchtargets {names};"]
    lines += [f"{label}:" + d.maybe(0.3, " add.u32 %r1, %r1, 1;") for label in labels]
    index = d.one("%r1", "%r1", "%r1", "1", "%r9", "0")
    lines.append(
        f"\t{d.maybe(0.15, '@%p1 ')}brx.idx{d.maybe(0.2, '.uni')} {index}, {d.one('T', 'T', 'T', 'T', 'L0', 'U')};"
    )
    if d.chance(0.2):
        lines.append(f"\t{d.one('{', '')} bra{d.maybe(0.3, '.uni')} {d.pick('L0 L1 T M k f %r1 7')}; {d.one('}', '')}")
    return d.kernel(d.shuffled(lines, 0.2))


def call_targets(d: Draw) -> str:
    lines: list[str] = []
    parameters, returns = d.one(*_PARAMETERS[:6]), d.one(*_RESULTS[:4])
    functions: list[str] = []
    for _ in range(d.number(1, 3)):
        name = d.name("f g h")
        if name not in functions:
            functions.append(name)
            mine = (returns, parameters) if d.chance(0.85) else (d.one(*_RESULTS[:4]), d.one(*_PARAMETERS[:6]))
            lines.append(
                f"{d.maybe(0.1, '.extern ')}.func {mine[0]}{name}({mine[1]}){d.one(' { ret; }', ' { ret; }', ';')}"
            )
    if d.chance(0.1):
        lines.append(f".entry e{d.tag}() {{ ret; }}")
        functions.append(f"e{d.tag}")
    several = [d.random.choice(functions) for _ in range(d.number(1, 3))]
    table = d.chance(0.45)
    if table:
        values = [d.one("0", "7", "(0)", "c") if d.chance(0.12) else n for n in several]
        if d.chance(0.15):
            values = [f"{mask}({n})" for n in several for mask in ("0xFF", "0xFF00")]
        lines.append(
            f".{d.pick('global const')} .{d.pick('u64 u64 u64 u32 u8 b64 s64')} t{d.tag}[{d.one('', '4', '8')}] = {{{', '.join(values)}}};"
        )
        body = []
    else:
        commas = d.one(" ", ",, ", ",") if d.chance(0.1) else ", "
        body = [f"\tt{d.tag}: .calltargets {commas.join(several)};"]
    body = [
        "\t.reg .b64 %d<3>; .reg .b32 %r<4>; .param .b32 x; .param .b64 y; .param .align 8 .b8 z[8]; .reg .f32 %f<2>;", *body,
        "\t" + _call(d, d.one("%d1", "%d1", "%d1", "%r1"), returns, parameters, f", {d.one(f't{d.tag}', f't{d.tag}', f't{d.tag}', f'f{d.tag}')}"),
    ]  # fmt: skip
    return d.shuffled(lines, 0.05) + d.kernel("\n".join(body))


def _call(d: Draw, callee: str, returns: str, parameters: str, last: str = "") -> str:
    """A call that fits most of the time."""
    result = {_RESULTS[2]: "%r1", _RESULTS[3]: d.one("x", "%r1"), _RESULTS[4]: "z", _RESULTS[5]: "%r1, %r2"}.get(
        returns, ""
    )
    given: list[str] = []
    for parameter in parameters.split(", "):
        if ".pred" in parameter:
            given.append("%p1")
        elif "[" in parameter:
            given.append(d.one("z", "z", "z", "%r1"))
        elif ".f32" in parameter:
            given.append(d.one("%f1", "%f1", "1.0", "%r1"))
        elif ".b64" in parameter:
            given.append(d.one("y", "%d2", "5"))
        elif parameter:
            given.append(d.one("%r2", "%r2", "x", "7", "-1", "%r2", "%d1"))
    if d.chance(0.08):
        given = given[1:] if d.chance(0.5) else [*given, "1"]
    if d.chance(0.08):
        result = d.one("", "%r1", "%d1", "_", "x")
    passed = f", ({', '.join(given)})" if given else d.one("", "", ", ()")
    return f"call{d.maybe(0.2, '.uni')} {f'({result}), ' if result else ''}{callee}{passed}{last};"


def prototypes(d: Draw) -> str:
    def formals(texts: tuple[str, ...]) -> str:
        text = d.one(*texts)
        for name in "p q r s".split():
            text = text.replace(f" {name}", " _" if d.chance(0.93) else f" {name}")
        return text.replace("q[", "_[")

    parameters, returns = formals(_PARAMETERS), formals(_RESULTS)
    directives = "".join(
        d.maybe(0.06, f" {t}") for t in (".noreturn", ".abi_preserve 4", ".abi_preserve_control 2", ".maxnreg 4")
    )
    listed = f"({parameters})" if d.chance(0.93) else d.one("", "(,)", f"({parameters},)", f"{parameters}")
    name = "_" if d.chance(0.95) else d.one("f", "__", "")
    kept = (returns.replace("_", "r", 1).replace("_", "s"), parameters.replace("_", "p", 1).replace("_", "q"))
    body = [
        "\t.reg .b64 %d<3>; .reg .b32 %r<4>; .reg .pred %p<2>; .param .b32 x; .param .b64 y; .param .align 8 .b8 z[8]; .reg .f32 %f<2>;",
        f"\tP: .callprototype {returns}{name} {listed}{directives};",
        "\t" + _call(d, "%d1", *kept, ", P"),
    ]
    return d.kernel(d.shuffled(body, 0.04))


def parameters(d: Draw) -> str:
    def one(i: int, space: str) -> str:
        align = d.maybe(0.15, f".align {d.pick('1 2 4 8 16 128 256 3 0 1U')} ")
        pointer = d.maybe(
            0.12 if entry else 0.02,
            f".ptr {d.one('', '.global ', '.shared ', '.const ', '.local ', '.param ')}{d.maybe(0.5, '.align 16 ')}",
        )
        late = d.maybe(0.03, ".align 8 ")
        size = d.maybe(0.15, f"[{d.maybe(0.9, d.count())}]")
        name = f"p{i}" if d.chance(0.97) else d.one("p0", "_", "%tid", "$", "k")
        return f"{space} {align}{d.maybe(0.04, '.v2 ')}{d.type()} {pointer}{late}{name}{size}"

    entry = d.chance(0.5)
    space = ".param" if entry or d.chance(0.5) else ".reg"
    listed = ", ".join(
        one(i, space if d.chance(0.95) else d.pick(".param .reg .global")) for i in range(d.number(0, 3))
    )
    if d.chance(0.05):
        listed += ", .param .align 8 .b8 big[" + d.pick("4096 4344 4352 32000 32764 32768 65536") + "]"
    reads = [
        f"ld.param{d.pick('.b32 .u64 .b8 .v2.b32 .f32')} {d.pick('%r1 %d1 %f1')}, [{d.pick('p0 p0 p1 p2 q')}{d.one('', '+4', '[1]', '+-4')}];",
        f"mov.b64 %d1, {d.pick('p0 p1')};", f"cvta.param.u64 %d1, {d.pick('p0 p1')};", f"st.param.b32 [{d.pick('p0 p1')}], %r1;",
        f"mov.b32 %r1, {d.pick('p0 p1')};",
    ]  # fmt: skip
    body = "\n".join(d.random.sample(reads, d.number(0, 2)))
    head = f".entry k{d.tag}" if entry else f".func f{d.tag}"
    return f"{head}({listed})\n{{\n\t.reg .b32 %r<3>; .reg .b64 %d<3>; .reg .f32 %f<2>;\n{body}\nret;\n}}\n"


def results(d: Draw) -> str:
    returns, parameters = d.one(*_RESULTS[1:]), d.one(*_PARAMETERS)
    if d.chance(0.1):
        returns = d.one(
            "(.reg .b32 _) ",
            "(.param .b32 r, .param .b32 s) ",
            "() ",
            "(.local .b32 r) ",
            "(.reg .pred r) ",
            "(.param .b8 r[]) ",
            "(.reg .v2 .b32 r) ",
        )
    writes = d.one(
        "",
        "mov.b32 r, 1;",
        "st.param.b32 [r], 1;",
        "st.param.b32 [r+4], 1;",
        "ld.param.b32 %q, [r];",
        "mov.b32 s, r;",
        "mov.b32 %q, p;",
        "ld.param.b32 %q, [p];",
    )
    function = f"{d.maybe(0.2, '.visible ')}.func {returns}f{d.tag}({parameters})\n{{ .reg .b32 %q; {writes} ret; }}\n"
    if d.chance(0.1):
        function = f".extern .func {returns}f{d.tag}({parameters});\n"
    body = (
        "\t.reg .b64 %d<3>; .reg .b32 %r<4>; .reg .pred %p<2>; .param .b32 x; .param .b64 y; .param .align 8 .b8 z[8]; .reg .f32 %f<2>;\n\t"
        + _call(d, d.name("f f f f f f k g"), returns, parameters)
        + d.maybe(0.2, f"\n\tld.param.b32 %r1, [{d.pick('x y z r q')}];")
    )
    return function + d.kernel(body)


def bodies(d: Draw) -> str:
    """Declarations of functions in bodies."""
    link = d.one("", ".extern ", ".extern ", ".visible ", ".weak ", ".common ")
    inside = f"{link}.{d.one('func', 'func', 'func', 'entry')} {d.one(*_RESULTS[:4])}{d.name('f f g k')}{d.one('()', '()', '', '(.param .b32 p)')}{d.maybe(0.1, ' .noreturn')};"
    before = (
        d.one("", "", f".func f{d.tag}() {{ ret; }}\n", f".global .b32 f{d.tag};\n", f".func f{d.tag}();\n")
        if d.chance(0.3)
        else ""
    )
    body = [
        inside,
        d.maybe(0.5, f"call {d.name('f f g')};"),
        d.maybe(0.2, d.one(f".reg .b32 f{d.tag};", f"f{d.tag}:", f".shared .b32 f{d.tag};", "{ " + inside + " }")),
    ]
    after = d.one("", "", f".func f{d.tag}() {{ ret; }}\n", f".entry l{d.tag}() {{ call f{d.tag}; ret; }}\n")
    if before.startswith(".global") and f" f{d.tag}" in inside:
        before = ""  # ptxas crashes
    return before + d.kernel(d.shuffled(body, 0.2)) + after


def performance(d: Draw) -> str:
    lines: list[str] = []
    for i in range(d.number(1, 2)):
        entry = d.chance(0.6)
        found = [d.one(*_DIRECTIVES[:20]) if d.chance(0.85) else d.one(*_DIRECTIVES) for _ in range(d.number(1, 3))]
        if not entry and d.chance(0.7):
            found = [t for t in found if t.startswith((".nor", ".abi", ".loc", ".lang"))]
        attribute = d.maybe(0.05, d.one(".attribute(.unified(1,2)) ", ".attribute(.managed) "))
        head = f".{'entry' if entry else 'func'} {attribute}m{i}{d.tag}()"
        lines.append(f"{head} {' '.join(found)} {d.one('{ ret; }', '{ ret; }', ';')}")
    return "\n".join(lines) + "\n"


def pragmas(d: Draw) -> str:
    def one() -> str:
        strings = (
            "nounroll", "nounroll", "used_bytes_mask 0xf", "enable_smem_spilling", "frequency 100", "frequency 0x10", "foo", "",
            "mma_throughput", "frequency", "frequency -1", "used_bytes_mask", "noinline", "nounroll ", "frequency 1.0", "frequency 010",
        )  # fmt: skip
        listed = ", ".join(f'"{d.one(*strings)}"' for _ in range(d.random.choice((1, 1, 1, 1, 2))))
        return (
            f".pragma {listed}{';' if d.chance(0.97) else ''}"
            if d.chance(0.95)
            else d.one(".pragma;", ".pragma nounroll;", '.pragma "a" "b";', '.pragma "a",;')
        )

    body = [
        d.maybe(0.6, one()),
        ".reg .b32 %r<2>;",
        "L:",
        d.maybe(0.4, one()),
        "add.u32 %r1, %r1, 1;",
        d.maybe(0.3, "{ " + one() + " }"),
    ]
    kind = d.one("entry", "entry", "func")
    return f"{d.maybe(0.2, one())}\n.{kind} k{d.tag}() {d.maybe(0.25, one())}\n{{\n" + "\n".join(body) + "\nret;\n}\n"
