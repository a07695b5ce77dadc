// The walk of a query: its directories as a tree, the results below them, and the parts of each score.
import { hierarchy, html, useState } from "./vendor/vendor.js";
import { Bar, Legend, spoken } from "./bars.js";
import { formula, PARTS, reason, shares } from "./scores.js";
import { number, t } from "./texts.js";
import { ancestorsOf, nameOf, parentOf, ROOT } from "./uris.js";
import { spelled, visible } from "./visible.js";

const SHOWN = 40; // directories
const VISIBLE = 5e-4; // a smaller score does not show in three digits
const MANY_FILES = 15; // see FindTrace.files_per_directory
const ROW = 26; // pixels
const INDENT = 16;

/** Return the directories and results as one tree of {uri, directory, match}. */
function treeOf(trace, matches) {
  const nodes = new Map();
  const add = (uri) => {
    if (!nodes.has(uri)) {
      nodes.set(uri, { uri, children: [] });
      const above = parentOf(uri);
      if (above !== null) add(above).children.push(nodes.get(uri));
    }
    return nodes.get(uri);
  };
  const scored = (trace.directories || []).filter(({ round, parts }) => round || parts?.final >= VISIBLE);
  for (const directory of scored.slice(0, SHOWN)) add(directory.uri).directory = directory;
  for (const match of matches) add(match.uri).match = match;
  let root = nodes.get(ROOT) || { uri: ROOT, children: [] };
  while (root.children.length === 1 && !root.directory && !root.match) root = root.children[0];
  return hierarchy(root)
    .sum(() => 0)
    .sort((a, b) => scoreOf(b) - scoreOf(a) || (a.data.uri < b.data.uri ? -1 : 1));
}

/** The best score of a node or below it, so that the best branch comes first. */
function scoreOf(node) {
  const own = node.data.match?.score ?? node.data.directory?.parts?.final ?? 0;
  return Math.max(own, ...(node.children || []).map(scoreOf));
}

const partsOf = (data) => data.match?.parts ?? data.directory?.parts;

/**
 * The walk as a tree.
 * @param {{trace, matches: Array, chosen: string, open: (uri: string) => void}} props
 */
export function Walk({ trace, matches, chosen, open }) {
  const [shown, show] = useState(chosen);
  const root = treeOf(trace, matches.filter((match) => match.parts));
  const rows = [];
  root.eachBefore((node) => {
    node.row = rows.length;
    rows.push(node);
  });
  const most = Math.max(0.01, ...rows.map(({ data }) => partsOf(data)?.final || 0));
  const used = PARTS.filter((name) => rows.some(({ data }) => partsOf(data) && shares(partsOf(data))[name] > 0.0005));
  const onPath = new Set([...ancestorsOf(chosen), chosen]);
  return html`<section class="walk" aria-label=${t("walk")}>
    <h3>${t("walk")}</h3>
    <p class="reason">${reason(matches.find(({ uri }) => uri === chosen)?.parts, chosen, trace.identifiers)}</p>
    <p class="quiet">${t("walkAbout")}</p>
    <${Legend} names=${used} />
    <ol class="walk-rows">
      ${rows.map((node) => {
        const { uri, directory, match } = node.data;
        const parts = partsOf(node.data);
        const kind = match ? "is-result" : directory?.round ? "is-opened" : "";
        const own = parts ? shares(parts) : {};
        return html`<li key=${uri} class=${`walk-row ${kind} ${uri === chosen ? "is-chosen" : ""} ${onPath.has(uri) ? "is-on-path" : ""}`}>
          <button type="button" class="walk-line" aria-expanded=${shown === uri} onClick=${() => show(shown === uri ? "" : uri)}>
            <${Lines} node=${node} onPath=${onPath} />
            <span class="walk-name" title=${spelled(uri)}><bdi>${visible(node === root ? uri : nameOf(uri))}</bdi>${!match && uri !== ROOT && node !== root ? "/" : ""}</span>
            ${directory?.startPoint && html`<span class="badge">${t("start")}</span>`}
            ${directory?.round > 0 && html`<span class="badge">${t("round", { n: directory.round })}</span>`}
            ${parts &&
            html`<span class="walk-bar"><${Bar} parts=${own} most=${most} label=${spoken(own, parts.final)} /></span>
              <span class="walk-score">${Number(parts.final || 0).toFixed(3)}</span>`}
          </button>
          ${shown === uri &&
          html`<div class="walk-numbers">
            ${parts ? html`<code>${formula(parts)}</code>` : html`<span class="quiet">${visible(uri)}</span>`}
            ${directory && html`<span class="quiet">${t("files", { n: number(directory.files) })}</span>`}
            <button type="button" class="link" onClick=${() => open(uri)}><bdi>${visible(uri)}</bdi></button>
          </div>`}
        </li>`;
      })}
    </ol>
    <${Facts} trace=${trace} />
  </section>`;
}

/** The lines that join a row with the row above it. */
function Lines({ node, onPath }) {
  const path = node.ancestors().reverse();
  const width = node.depth * INDENT + 10;
  const x = node.depth * INDENT + 5;
  const middle = ROW / 2;
  const lines = [];
  for (const at of path.slice(1)) {
    const left = (at.depth - 1) * INDENT + 5;
    const isLast = at.parent.children[at.parent.children.length - 1] === at;
    const lit = at === node && onPath.has(at.data.uri) ? "line is-lit" : "line";
    if (at === node) {
      lines.push(html`<path class=${lit} d=${`M${left} 0V${middle - 5}Q${left} ${middle} ${left + 5} ${middle}H${x - 4}`} />`);
      if (!isLast) lines.push(html`<path class="line" d=${`M${left} 0V${ROW}`} />`);
    } else if (!isLast) lines.push(html`<path class="line" d=${`M${left} 0V${ROW}`} />`);
  }
  if (node.children) lines.push(html`<path class="line" d=${`M${x} ${middle + 4}V${ROW}`} />`);
  return html`<svg class="lines" width=${width} height=${ROW} aria-hidden="true">
    ${lines}<circle class="knot" cx=${x} cy=${middle} r="4" />
  </svg>`;
}

function Facts({ trace }) {
  const gate = trace.gate || 0;
  const each = trace.filesPerDirectory || 0;
  return html`<div class="facts quiet">
    <p>${t("scope", { d: number(trace.scopeDirectories), f: number(trace.scopeFiles), t: number(trace.scopeTexts), s: number(trace.scoredTexts) })}</p>
    ${trace.sampleFiles > 0 && html`<p>${t("gate", { icc: (trace.icc || 0).toFixed(3), gate: `${Math.round(gate * 100)}%` })}</p>`}
    ${gate > 0 && each > MANY_FILES && html`<p>${t("large", { n: each.toFixed(1), share: `${Math.round((100 * MANY_FILES) / each)}%` })}</p>`}
    ${trace.otherScriptCap > 0 && html`<p>${t("cap", { cap: trace.otherScriptCap.toFixed(3) })}</p>`}
    ${trace.rounds > 0 && html`<p>${t("opened", { n: number(trace.opened), r: trace.rounds })}</p>`}
  </div>`;
}
