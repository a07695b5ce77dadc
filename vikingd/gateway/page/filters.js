// The filters beside the results: type, directory, time, kind, metadata and strength.
import { html } from "./vendor/vendor.js";
import { forgetQuestions, questions } from "./asked.js";
import { go } from "./route.js";
import { STRENGTHS } from "./strength.js";
import { number, t } from "./texts.js";
import { parentOf, ROOT } from "./uris.js";
import { spelled, visible } from "./visible.js";

/** The kinds that an import gives to files, in the metadata `kind`. */
const KINDS = ["source", "test", "documentation", "example", "configuration", "data", "generated", "vendored", "licence"];
const TYPES = ["memory", "resource", "skill"];
const DAYS = ["1", "7", "30", "365"];
const SHOWN = 8; // directories, and values of a field

/** Return the metadata that a route asks for: {key: value}. */
export function wanted(route) {
  try {
    const has = JSON.parse(route.has || "{}");
    return { ...(has && typeof has === "object" && !Array.isArray(has) ? has : {}), ...(route.kind ? { kind: route.kind } : {}) };
  } catch {
    return {};
  }
}

/** Return [value, number] of what occurs most, the most frequent first. */
function counted(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, SHOWN);
}

/** Return the fields of the results' metadata that part them: [key, [[value as JSON, number], ...]]. */
function fieldsOf(matches, details, chosen) {
  const fields = new Map();
  for (const { uri } of matches) {
    for (const [key, value] of Object.entries(details.get(uri)?.metadata || {})) {
      if (["string", "number", "boolean"].includes(typeof value)) fields.set(key, [...(fields.get(key) || []), JSON.stringify(value)]);
    }
  }
  const isTelling = ([key, values]) => key !== "kind" && !(key in chosen) && values.length > 1 && new Set(values).size < values.length;
  const others = [...fields].filter(isTelling).map(([key, values]) => [key, counted(values)]);
  return [...Object.entries(chosen).map(([key, value]) => [key, [[JSON.stringify(value), matches.length]]]), ...others];
}

const nameless = (uri) => uri.slice(ROOT.length) || ROOT;

/** The filters of a route. */
export function Filters({ route, matches, details, ask }) {
  const types = route.types.split(",").filter(Boolean);
  const { kind, ...chosen } = wanted(route);
  const directories = counted(matches.map(({ uri }) => parentOf(uri))).filter(([uri]) => uri !== route.target);
  const toggleType = (name) => go({ types: TYPES.filter((one) => types.includes(one) !== (one === name)).join(","), why: "" });
  const toggleField = (key, value) => {
    const { [key]: before, ...rest } = chosen;
    const has = JSON.stringify(before) === value ? rest : { ...rest, [key]: JSON.parse(value) };
    go({ has: Object.keys(has).length ? JSON.stringify(has) : "", why: "" });
  };
  const select = (name, part, values, word, any) => html`<label>${t(name)}
    <select value=${route[part]} onChange=${(event) => go({ [part]: event.currentTarget.value, why: "" })}>
      <option value="">${t(any)}</option>
      ${[...new Set([...values, route[part]])].filter(Boolean).map((one) => html`<option key=${one} value=${one}>${values.includes(one) ? t(word + one) : visible(one)}</option>`)}
    </select></label>`;
  const isFiltered = route.types || route.target || route.kind || route.has || route.since || route.strength;
  return html`<details class="filters" open=${matchMedia("(min-width: 75rem)").matches}>
    <summary>${t("filters")}</summary>
    <div class="filter-parts">
      ${isFiltered && html`<button type="button" class="small" onClick=${() => go({ types: "", target: "", kind: "", has: "", since: "", strength: "" })}>${t("clearFilters")}</button>`}
      <fieldset><legend>${t("type")}</legend>
        ${TYPES.map((name) => html`<label key=${name} class="check"><input type="checkbox" checked=${types.includes(name)} onChange=${() => toggleType(name)} />${t(name)}</label>`)}
      </fieldset>
      <fieldset><legend>${t("directory")}</legend>
        ${route.target && html`<button type="button" class="chip" aria-pressed="true" title=${t("clearTarget")} onClick=${() => go({ target: "", why: "" })}><bdi>${visible(nameless(route.target))}</bdi> ×</button>`}
        ${directories.map(([uri, count]) => html`<button key=${uri} type="button" class="chip" title=${spelled(uri)} onClick=${() => go({ target: uri, why: "" })}><bdi>${visible(nameless(uri))}</bdi> <span class="quiet">${number(count)}</span></button>`)}
      </fieldset>
      <fieldset><legend>${t("narrow")}</legend>
        ${select("changed", "since", DAYS, "days.", "anyTime")}
        ${select("fileKind", "kind", KINDS, "kind.", "anyKind")}
        ${select("strength", "strength", STRENGTHS.slice(0, -1), "atLeast.", "anyStrength")}
      </fieldset>
      ${fieldsOf(matches, details, chosen).map(([key, values]) => html`<fieldset key=${key}><legend><bdi>${visible(key)}</bdi></legend>
        ${values.map(([value, count]) => html`<button key=${value} type="button" class="chip" aria-pressed=${JSON.stringify(chosen[key]) === value} onClick=${() => toggleField(key, value)}><bdi>${visible(String(JSON.parse(value)))}</bdi> <span class="quiet">${number(count)}</span></button>`)}
      </fieldset>`)}
      <${Recent} ask=${ask} />
    </div>
  </details>`;
}

/** The questions of this browser. */
export function Recent({ ask }) {
  const asked = questions();
  if (!asked.length) return null;
  return html`<fieldset class="recent"><legend>${t("recent")}</legend>
    ${asked.map((q) => html`<button key=${q} type="button" class="chip" onClick=${() => ask(q)}><bdi>${visible(q)}</bdi></button>`)}
    <button type="button" class="small" onClick=${() => (forgetQuestions(), ask(""))}>${t("forgetRecent")}</button>
  </fieldset>`;
}
