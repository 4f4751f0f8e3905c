// node check.mjs PACKAGES.zip WRONG.ptx RIGHT.ptx: pyptx in npm's Pyodide, which has no NumPy: what the page's `check` says to the texts, and `run` to the last.

import { readFileSync } from "node:fs";
import { loadPyodide } from "pyodide";
import { boot, check, run } from "./playground.mjs";

const [packages, ...texts] = process.argv.slice(2);
const pyodide = await boot(loadPyodide);
pyodide.unpackArchive(new Uint8Array(readFileSync(packages)), "zip", { extractDir: "/packages" });
pyodide.runPython("import sys; sys.path.insert(0, '/packages')");
for (const path of texts) console.log(JSON.stringify(check(pyodide, readFileSync(path, "utf8"))));
console.log(JSON.stringify(run(pyodide, readFileSync(texts.at(-1), "utf8"))));
