from __future__ import annotations

import pickle

import pytest

from pyptx.diagnostics import Diagnostic, PTXError, SimulationError, counted, did_you_mean, merged, suggest


def test_render_shows_where_what_and_what_would_be_legal():
    found = Diagnostic("error", "unknown type `.f33`", "k.ptx", 3, 5, hint="did you mean `.f32`?")
    assert found.render("\tadd.f33 %f1, %f2, %f3;\n") == (
        "k.ptx:3:5: error: unknown type `.f33`\n\tadd.f33 %f1, %f2, %f3;\n\t   ^\nhint: did you mean `.f32`?"
    )


@pytest.mark.parametrize(
    ("place", "headline"),
    [
        ({}, "warning: m"),
        ({"filename": "a.py"}, "a.py: warning: m"),
        ({"line": 7}, "<ptx>:7: warning: m"),
        ({"line": 7, "column": 2}, "<ptx>:7:2: warning: m"),
        ({"column": 2}, "warning: m"),
    ],
)
def test_headline_says_only_what_is_known(place: dict[str, object], headline: str):
    assert str(Diagnostic("warning", "m", **place)) == headline  # pyright: ignore[reportArgumentType]


def test_own_source_line_is_used_unless_another_is_given():
    found = Diagnostic("note", "m", line=1, column=1, source_line="ret;")
    assert found.render().splitlines()[1:] == ["ret;", "^"]
    assert found.render("exit;").splitlines()[1:] == ["exit;", "^"]


def test_no_caret_without_a_column_and_no_excerpt_of_an_empty_line():
    assert Diagnostic("error", "m", line=1, source_line="ret;").render().splitlines()[1:] == ["ret;"]
    assert Diagnostic("error", "m", line=1, column=1, source_line="  \n").render().count("\n") == 0


def test_column_past_the_end_stays_at_the_end():
    assert Diagnostic("error", "m", column=99).render("ret").splitlines()[1:] == ["ret", "   ^"]


def test_long_lines_are_cut_around_the_column():
    line = "x" * 500 + "@" + "y" * 500
    _, shown, caret = Diagnostic("error", "m", line=1, column=501).render(line).splitlines()
    assert len(shown) < 140
    assert shown.startswith("...")
    assert shown.endswith("...")
    assert shown[caret.index("^")] == "@"


def test_control_characters_cannot_reach_the_terminal():
    assert "\x1b" not in Diagnostic("error", "m", line=1, column=1).render("\x1b[31mred")


def test_error_text_is_all_its_diagnostics():
    error = PTXError([Diagnostic("error", "one", line=1), Diagnostic("note", "two", line=2)])
    assert str(error) == "<ptx>:1: error: one\n<ptx>:2: note: two"
    assert str(PTXError("just text")) == "error: just text"
    assert PTXError(Diagnostic("error", "x")).diagnostics == (Diagnostic("error", "x"),)


def test_errors_pickle():
    error = SimulationError(Diagnostic("error", "out of bounds", "k.py", 12, hint="grid is 4"))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is SimulationError
    assert copy.diagnostics == error.diagnostics


NAMES = (
    "add sub mul mad fma ld ldmatrix st setp selp cvt cvta mbarrier.try_wait mbarrier.test_wait wgmma.fence"
).split()


@pytest.mark.parametrize(
    ("word", "best"),
    [
        ("ADD", "add"),
        ("sbu", "sub"),
        ("slep", "selp"),
        ("setpp", "setp"),
        ("mbarrier.tyr_wait", "mbarrier.try_wait"),
        ("mbarier.test_wait", "mbarrier.test_wait"),
        ("wgmma", "wgmma.fence"),
        ("ldmatr", "ldmatrix"),
        ("cvt.a", "cvta"),
    ],
)
def test_suggest_finds_what_was_meant(word: str, best: str):
    assert suggest(word, NAMES)[0] == best


def test_suggest_is_silent_about_strangers_and_itself():
    assert suggest("xyzzyplugh", NAMES) == []
    assert "add" not in suggest("add", NAMES)
    assert suggest("", NAMES) == []
    assert suggest("q", ["a", "b"]) == []


def test_suggest_ignores_order_of_equal_input_and_repetition():
    assert suggest(".f33", [".f32", ".f64", ".f32"]) == suggest(".f33", [".f64", ".f32"])
    assert len(suggest("ad", ["add", "and", "abd", "aid", "mad"], limit=2)) == 2


def test_did_you_mean_reads_as_a_sentence():
    assert did_you_mean("xyzzyplugh", NAMES) is None
    assert did_you_mean("sbu", NAMES) == "did you mean `sub`?"
    assert did_you_mean(".f3", [".f32", ".f31"]) == "did you mean `.f31` or `.f32`?"


def test_equal_diagnostics_are_told_once_with_their_lines() -> None:
    def at(line: int, message: str) -> Diagnostic:
        return Diagnostic("error", message, "k.ptx", line, 1)

    few = [
        at(3, "register %r1 is not declared"),
        at(4, "register %r2 is not declared"),
        at(9, "register %r1 is not declared"),
    ]
    assert [(d.line, "1 more like this at line 9" in d.message) for d in merged(few)] == [(3, True), (4, False)]
    many = [at(n, f"register %r{n} is not declared") for n in range(1, 36001)]
    (told,) = merged([*many, at(5, "another")])[:-1]
    assert told.line == 1
    assert "35,999 more like this at lines 2, 3, 4" in told.message
    assert len(told.message) < 200
    apart = [Diagnostic("error", "ptxas failed"), Diagnostic("error", "ptxas failed")]
    assert merged(apart) == apart  # nothing says that these are one


def test_counts_in_messages() -> None:
    assert [counted(n, "thread") for n in (0, 1, 2)] == ["0 threads", "1 thread", "2 threads"]
    assert [counted(n, "entry") for n in (1, 2)] == ["1 entry", "2 entries"]
