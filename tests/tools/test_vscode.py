"""The VS Code extension: built and packed by npm, its grammars run by VS Code's own tokenizer, its snippets judged."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import pyptx
from tests.conftest import some_corpus_files

ROOT = Path(__file__).resolve().parent.parent.parent
EXTENSION = ROOT / "editors" / "vscode"
NOT_PART = shutil.ignore_patterns("node_modules", "dist", "*.vsix")
SASS = """\t.section\t.text.k,"ax",@progbits
k:
        /*0000*/              @!P0 LDG.E R0, desc[UR4][R2.64+0x10] ;      /* 0x0000000402007981 */
                                                                          /* 0x000ea2000c1e1900 */
        /*0010*/                   TEX.LL RZ, R7, R4, 0x0, 2D ;
        /*0020*/                   EXIT ;
"""
LOAD = """
const Module = require("node:module"), load = Module._load, said = [];
const nothing = () => new Proxy(class {}, { get: (c, key) => (key in c || typeof key == "symbol" ? c[key] : (c[key] = nothing())) });
const disposable = { dispose() {} }, vscode = nothing();
vscode.window = { showErrorMessage: (message) => said.push(message) };
vscode.commands = { registerCommand: () => disposable };
vscode.workspace = { onDidChangeConfiguration: () => disposable, getConfiguration: () => ({ get: () => [] }) };
Module._load = (name, ...rest) => (name == "vscode" ? vscode : load(name, ...rest));
const { activate, deactivate } = require("./dist/extension.js");
activate({ subscriptions: [] }).then(deactivate).then(() => console.log(said.join()));
"""
"""Starts the extension with a stand-in for VS Code, in which `pyptx.command` is empty."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the extension with the packages that its lock file names."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    copy = tmp_path_factory.mktemp("vscode") / "extension"
    shutil.copytree(EXTENSION, copy, ignore=NOT_PART)
    install = ["npm", "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(install, cwd=copy, capture_output=True, text=True)
    if done.returncode:
        reason = re.search(
            r"npm error code (ENOTCACHED|ENOTFOUND|ECONN\w+|EAI_AGAIN|ETIMEDOUT|E404|ENETUNREACH)", done.stderr
        )
        assert reason is not None, done.stderr  # a lock file that does not fit, say
        pytest.skip(f"npm's packages are not to be had: {reason[1]}")
    return copy


def run(folder: Path, *command: str | Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_npm_builds_and_packs_it(folder: Path) -> None:
    run(folder, "npm", "run", "package")
    about = json.loads((EXTENSION / "package.json").read_text())
    with zipfile.ZipFile(folder / "pyptx.vsix") as archive:
        names = set(archive.namelist())
        assert archive.testzip() is None and {"extension.vsixmanifest", "[Content_Types].xml"} <= names
        kept = json.loads(archive.read("extension/package.json"))
        assert kept == about and f'Version="{about["version"]}"' in archive.read("extension.vsixmanifest").decode()
        ends = {Path(name).suffix for name in names}
        assert all(f'Extension="{end}"' in archive.read("[Content_Types].xml").decode() for end in ends - {".xml"})
    for path in paths_in(about["contributes"]) | {about["main"]}:
        assert f"extension/{path.removeprefix('./')}" in names
    assert "pyptx.command is empty" in run(folder, "node", "-e", LOAD)


def paths_in(value: object) -> set[str]:
    """Every string in JSON that names a file."""
    if isinstance(value, dict):
        return {p for v in value.values() for p in paths_in(v)}
    if isinstance(value, list):
        return {p for v in value for p in paths_in(v)}
    return {value} if isinstance(value, str) and value.startswith("./") else set()


@pytest.mark.corpus
def test_its_tokenizer_leaves_nothing_unclassified(folder: Path, corpus_dir: Path, tmp_path: Path) -> None:
    chosen = [p for name in ("triton", "nvcc-13.0", "hard/ptx") for p in some_corpus_files(corpus_dir / name, 20_000)]
    seen = classify(folder, "ptx", chosen)
    assert "mov" in seen["keyword.other.opcode.ptx"] and ".reg" in seen["storage.type.directive.ptx"]
    (tmp_path / "k.sass").write_text(SASS)
    assert classify(folder, "sass", [tmp_path / "k.sass"])["keyword.other.opcode.sass"] == ["LDG", "TEX", "EXIT"]


def classify(folder: Path, language: str, files: Sequence[Path]) -> dict[str, list[str]]:
    return json.loads(run(folder, "node", "scripts/classify.mjs", f"syntaxes/{language}.tmLanguage.json", *files))


def test_versions_and_license() -> None:
    about = json.loads((EXTENSION / "package.json").read_text())
    assert about["version"] == pyptx.__version__
    assert (EXTENSION / "LICENSE.txt").read_text() == (ROOT / "LICENSE").read_text()


SNIPPETS = json.loads((EXTENSION / "snippets" / "ptx.json").read_text())
FRAME = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{{
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.shared .align 8 .b64 bar;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, 0;
{}
	ret;
}}
"""


@pytest.mark.parametrize("name", SNIPPETS)
def test_snippets_are_legal_ptx(name: str) -> None:
    body = "\n".join(SNIPPETS[name]["body"]).replace("$0", "")
    defaults = dict(re.findall(r"\$\{(\d):([^}]*)\}", body))
    body = re.sub(r"\$\{(\d)(?::[^}]*)?\}", lambda m: defaults[m[1]], body).replace("\\$", "$")
    if name == "Module":
        text = body
    elif name in ("Entry", "Function"):
        text = f".version 8.0\n.target sm_90a\n.address_size 64\n{body}\n"
    else:
        text = FRAME.format(body)
    assert [d for d in pyptx.diagnose(text) if d.severity == "error"] == []


RUN = """
const Module = require("node:module"), load = Module._load, path = require("node:path");
const seen = [], commands = {}, opened = [], said = [];
const disposable = { dispose() {} };
const event = () => disposable;
const nothing = () => new Proxy(class {}, { get: (c, key) => (key in c || typeof key == "symbol" ? c[key] : (c[key] = nothing())) });
const vscode = nothing();
class Uri { constructor(text) { this.text = text; this.scheme = "file"; this.fsPath = this.path = text.slice(7); } toString() { return this.text; } }
Object.assign(Uri, { parse: (t) => new Uri(t), file: (p) => new Uri("file://" + p) });
class Position { constructor(line, character) { Object.assign(this, { line, character }); } }
class Range { constructor(a, b, c, d) { Object.assign(this, typeof a === "number" ? { start: new Position(a, b), end: new Position(c, d) } : { start: a, end: b }); } }
const opens = (name, text) => ({ uri: new Uri(`file:///${name}.ptx`), languageId: "ptx", version: 1, getText: () => text, lineCount: 9 });
const wrong = opens("wrong", process.env.WRONG), document = opens("right", process.env.RIGHT);
const collection = { set: (uri, found) => seen.push(...found), delete() {}, clear() {}, dispose() {}, forEach() {} };
Object.assign(vscode, {
  Uri, Position, Range, version: "1.90.0",
  Diagnostic: class { constructor(range, message, severity) { Object.assign(this, { range, message, severity }); } },
  CancellationTokenSource: class { token = { isCancellationRequested: false, onCancellationRequested: event }; cancel() {} dispose() {} },
  EventEmitter: class { event = event; fire() {} dispose() {} },
  Disposable: class { static from() { return disposable; } static create() { return disposable; } dispose() {} },
  env: { language: "en", appName: "test" }, ViewColumn: { Beside: -2 },
  DiagnosticSeverity: { Error: 0, Warning: 1, Information: 2, Hint: 3 },
});
vscode.languages = new Proxy({ createDiagnosticCollection: () => collection, match: () => 10 }, { get: (t, k) => t[k] ?? (() => disposable) });
vscode.commands = { registerCommand: (name, run) => ((commands[name] = run), disposable) };
vscode.window = {
  showErrorMessage: async (m) => said.push(m), showInformationMessage: async () => {},
  createOutputChannel: () => nothing(), onDidChangeActiveTextEditor: event, onDidChangeVisibleTextEditors: event, visibleTextEditors: [],
  activeTextEditor: { document }, showTextDocument: async (d, column) => opened.push([d, column]), tabGroups: { all: [], onDidChangeTabs: event, onDidChangeTabGroups: event },
};
vscode.workspace = new Proxy({
  getConfiguration: () => ({ get: (key, d) => (key === "command" ? JSON.parse(process.env.SERVER) : d) }),
  textDocuments: [document, wrong], workspaceFolders: undefined, notebookDocuments: [], openTextDocument: async (d) => d,
}, { get: (t, k) => (k in t ? t[k] : event) });
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));
const { activate, deactivate } = require("./dist/extension.js");
(async () => {
  await activate({ subscriptions: [] });
  for (let t = 0; t < 600 && !seen.length; t++) await new Promise((done) => setTimeout(done, 50));
  await commands["pyptx.showMachineCode"]();
  await deactivate();
  console.log(JSON.stringify({ found: seen.map((d) => [d.range.start.line, d.message]), commands: Object.keys(commands), opened, said }));
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(4); });
"""
"""The compiled client in a stand-in for VS Code with two open documents, and the real server."""


def test_the_client_talks_to_the_server(folder: Path) -> None:
    run(folder, "npm", "run", "build")
    wrong, right = FRAME.format("\tmov.u33 %r2, %r1;"), FRAME.format("\tst.global.u32 [%rd1], %r1;")
    server = json.dumps([sys.executable, "-m", "pyptx.tools.cli", "lsp"])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "WRONG": wrong, "RIGHT": right, "SERVER": server}
    done = subprocess.run(["node", "-e", RUN], cwd=folder, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    [(line, message)] = answer["found"]
    assert "mov.u33" in wrong.split("\n")[line] and ".u33" in message
    [[document, column]] = answer["opened"]
    assert (document["language"], column, answer["said"]) == ("sass", -2, []) and "STG" in document["content"]
    assert {"pyptx.restart", "pyptx.showMachineCode", "pyptx.simulate", "pyptx.sass"} <= set(answer["commands"])
