// Bundle the packages into vendor.js, with their licences beside it: npm ci && npm run build
import { readFileSync, writeFileSync } from "node:fs";
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
