// What VS Code's own tokenizer makes of files: prints each piece of text that has no class, and exits with 1 if there is one.
// node scripts/classify.mjs GRAMMAR.json FILE...

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import oniguruma from "vscode-oniguruma";
import textmate from "vscode-textmate";

const [path, ...files] = process.argv.slice(2);
const wasm = readFileSync(createRequire(import.meta.url).resolve("vscode-oniguruma/release/onig.wasm"));
await oniguruma.loadWASM(wasm);
const text = readFileSync(path, "utf8");
const registry = new textmate.Registry({
  onigLib: Promise.resolve({
    createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
    createOnigString: (string) => new oniguruma.OnigString(string),
  }),
  loadGrammar: async () => textmate.parseRawGrammar(text, path),
});
const grammar = await registry.loadGrammar(JSON.parse(text).scopeName);

let unclassified = 0;
const seen = {};
for (const file of files) {
  let state = textmate.INITIAL;
  for (const [number, line] of readFileSync(file, "utf8").split(/\r?\n/).entries()) {
    const { tokens, ruleStack } = grammar.tokenizeLine(line, state);
    state = ruleStack;
    for (const { startIndex, endIndex, scopes } of tokens) {
      const piece = line.slice(startIndex, endIndex);
      if (scopes.length > 1) (seen[scopes.at(-1)] ??= new Set()).add(piece.trim());
      else if (piece.trim()) {
        unclassified += 1;
        console.error(`${file}:${number + 1}:${startIndex + 1}: no class: ${piece}`);
      }
    }
  }
}
console.log(JSON.stringify(Object.fromEntries(Object.entries(seen).map(([scope, pieces]) => [scope, [...pieces]]))));
process.exit(unclassified ? 1 : 0);
