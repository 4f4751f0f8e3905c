// Reads grammar.js without the tree-sitter CLI: checks that each rule it names is there, and cuts files into its tokens by tree-sitter's rules
// (explicit precedence, then length, then strings before patterns). Prints a piece that no token takes, and exits with 1.
// node scripts/lex.cjs FILE...

const { readFileSync } = require("node:fs");
const path = require("node:path");

const as = (x) => (typeof x === "string" ? { kind: "string", value: x } : x instanceof RegExp ? { kind: "pattern", value: x } : x);
const many = (kind) => (...parts) => ({ kind, parts: parts.map(as) });
Object.assign(globalThis, {
  grammar: (g) => g,
  choice: many("choice"),
  seq: many("seq"),
  repeat: many("repeat"),
  token: (x) => ({ kind: "token", parts: [as(x)] }),
  prec: (value, x) => ({ kind: "prec", value, parts: [as(x)] }),
  field: (name, x) => ({ kind: "field", parts: [as(x)] }),
});

const grammar = require(path.join(__dirname, "..", "grammar.js"));
const named = new Set();
const $ = new Proxy({}, { get: (_, name) => (named.add(name), { kind: "symbol", name }) });
const rules = Object.fromEntries(Object.entries(grammar.rules).map(([name, rule]) => [name, as(rule($))]));
const extras = grammar.extras($).map(as);
grammar.word($);
for (const name of named) if (!(name in rules)) throw new Error(`no rule ${name}`);

const strings = new Map(), patterns = [];
function collect(rule, owner, implicit = 0) {
  if (rule.kind === "string") strings.has(rule.value) || strings.set(rule.value, owner);
  else if (rule.kind === "pattern") patterns.push({ owner, implicit, match: new RegExp(rule.value.source, "y") });
  else for (const part of rule.parts ?? []) collect(part, owner, rule.kind === "token" ? 1 : implicit);
}
for (const [name, rule] of Object.entries(rules)) collect(rule, name);
for (const rule of extras) if (rule.kind === "pattern") collect(rule, "space");
const longest = Math.max(...[...strings.keys()].map((s) => s.length));

let wrong = 0;
const seen = {};
for (const file of process.argv.slice(2)) {
  const text = readFileSync(file, "utf8");
  for (let at = 0; at < text.length; ) {
    let best = { length: 0 };
    for (const { owner, implicit, match } of patterns) {
      match.lastIndex = at;
      const length = match.exec(text)?.[0].length ?? 0;
      if (length > best.length || (length === best.length && implicit > best.implicit)) best = { length, owner, implicit };
    }
    for (let length = Math.min(longest, text.length - at); length >= Math.max(best.length, 1); length--) {
      const owner = strings.get(text.slice(at, at + length));
      if (owner) { best = { length, owner, implicit: 2 }; break; }
    }
    if (!best.length) {
      console.error(`${file}: no token at ${JSON.stringify(text.slice(at, at + 40))}`);
      wrong += 1;
      best.length = 1;
    } else if (best.owner !== "space") (seen[best.owner] ??= new Set()).add(text.slice(at, at + best.length));
    at += best.length;
  }
}
console.log(JSON.stringify(Object.fromEntries(Object.entries(seen).map(([owner, pieces]) => [owner, [...pieces].slice(0, 2000)]))));
process.exit(wrong ? 1 : 0);
