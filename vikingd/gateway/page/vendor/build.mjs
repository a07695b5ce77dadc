// Bundle the packages into vendor.js, with their licences beside it, and the page into ../page.js: npm ci && npm run build
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

await build({
  entryPoints: ["entry.js"],
  outfile: "vendor.js",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  banner: { js: "// preact, htm and d3-hierarchy: see LICENSES.txt. Made by build.mjs." },
});

const { dependencies } = JSON.parse(readFileSync("package.json", "utf8"));
const licences = Object.entries(dependencies).map(([name, version]) => {
  const text = readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim();
  return `${name} ${version}\n\n${text}\n`;
});
writeFileSync("LICENSES.txt", licences.join(`\n${"-".repeat(72)}\n\n`));

// The digest tells whether page.js is made from the modules as they are.
const modules = readdirSync("..").filter((name) => name.endsWith(".js") && name !== "page.js").sort();
const digest = createHash("sha256");
for (const name of [...modules.map((name) => `../${name}`), "vendor.js"]) digest.update(readFileSync(name));
await build({
  entryPoints: ["../app.js"],
  outfile: "../page.js",
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "esm",
  target: "es2022",
  legalComments: "none",
  banner: { js: `// Made by vendor/build.mjs of the modules beside it, SHA-256 ${digest.digest("hex")}; do not edit.` },
});
