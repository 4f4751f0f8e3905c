// Packs the extension as a .vsix: a zip archive with the extension's files, a manifest and the list of content types.
// node scripts/package.mjs OUT.vsix

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { strToU8, zipSync } from "fflate";

const FILES = ["package.json", "README.md", "LICENSE.txt", "language-configuration.json"];
const FOLDERS = ["dist", "syntaxes", "snippets"];
const TYPES = { json: "application/json", js: "application/javascript", md: "text/markdown", txt: "text/plain", vsixmanifest: "text/xml" };

const escape = (text) => text.replace(/[<>&"]/g, (c) => ({ "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;" })[c]);

function manifest(about) {
  const assets = [
    ["Code.Manifest", "package.json"],
    ["Content.Details", "README.md"],
    ["Content.License", "LICENSE.txt"],
  ].map(([type, path]) => `<Asset Type="Microsoft.VisualStudio.${type}" Path="extension/${path}" Addressable="true"/>`);
  return `<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
<Metadata>
<Identity Language="en-US" Id="${about.name}" Version="${about.version}" Publisher="${about.publisher}"/>
<DisplayName>${escape(about.displayName)}</DisplayName>
<Description xml:space="preserve">${escape(about.description)}</Description>
<Tags>${escape(about.keywords.join(","))}</Tags>
<Categories>${escape(about.categories.join(","))}</Categories>
<Properties><Property Id="Microsoft.VisualStudio.Code.Engine" Value="${escape(about.engines.vscode)}"/></Properties>
<License>extension/LICENSE.txt</License>
</Metadata>
<Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
<Dependencies/>
<Assets>${assets.join("")}</Assets>
</PackageManifest>
`;
}

function types() {
  const rows = Object.entries(TYPES).map(([end, type]) => `<Default Extension=".${end}" ContentType="${type}"/>`);
  return `<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">${rows.join("")}</Types>
`;
}

const out = process.argv[2];
if (!out) {
  console.error("usage: node scripts/package.mjs OUT.vsix");
  process.exit(2);
}
const paths = [...FILES, ...FOLDERS.flatMap((folder) => readdirSync(folder).sort().map((name) => `${folder}/${name}`))];
const about = JSON.parse(readFileSync("package.json", "utf8"));
const content = {
  "extension.vsixmanifest": strToU8(manifest(about)),
  "[Content_Types].xml": strToU8(types()),
  ...Object.fromEntries(paths.map((path) => [`extension/${path}`, new Uint8Array(readFileSync(path))])),
};
writeFileSync(out, zipSync(content, { level: 9, mtime: new Date(2026, 0, 1) }));
console.log(`${out}: ${paths.length} files`);
