// The answers of Find and Search: results with scores, and why each was found.
import { html } from "./vendor/vendor.js";
import { Bar, spoken } from "./bars.js";
import { shares } from "./scores.js";
import { number, t } from "./texts.js";
import { linesOf } from "./uris.js";
import { visible } from "./visible.js";
import { Walk } from "./walk.js";

const TYPES = { CONTEXT_TYPE_MEMORY: "memory", CONTEXT_TYPE_RESOURCE: "resource", CONTEXT_TYPE_SKILL: "skill" };

/** Return the name of a context type. */
export const typeName = (type) => t(TYPES[type] || "");

/** Return all results of a reply, best first. */
export const matchesOf = (reply) =>
  [...(reply.memories || []), ...(reply.resources || []), ...(reply.skills || [])].sort(
    (a, b) => b.score - a.score || (a.uri < b.uri ? -1 : 1),
  );

/** The parts of an answer that are missing. */
export function Degraded({ reply }) {
  return (reply.degraded || []).map(
    (one) => html`<p key=${one.reason} class="note is-warning" role="status">${t("degraded", { text: one.detail || one.reason })}</p>`,
  );
}

const isWeak = (reply) => ["STRENGTH_WEAK", "STRENGTH_NOTHING"].includes(reply.confidence?.strength);

/** The words for an answer that is probably about something else; nothing for a strong one. */
export function Doubt({ reply, isRecall }) {
  if (!isWeak(reply)) return null;
  const name = reply.confidence.strength === "STRENGTH_WEAK" ? "weak" : "nothing";
  const share = Number(reply.confidence.inScope || 0).toFixed(2);
  const leftOut = reply.leftOut ? ` ${t("leftOut", { n: number(reply.leftOut) })}` : "";
  return html`<p class="note is-warning" role="status">${t(isRecall ? `${name}Recall` : name)} (${share})${leftOut}</p>`;
}

/** The questions of a request that asks several. */
export function Questions({ reply }) {
  const asked = reply.questions || [];
  return asked.length > 0 && html`<p class="questions quiet"><bdi>${visible(t("questions", { n: number(asked.length), text: asked.join(" · ") }))}</bdi></p>`;
}

/** One line about an answer: the number of results, the revision and the time. */
export function Summary({ reply, count, taken }) {
  const results = count === 1 ? t("oneResult") : t("results", { n: number(count) });
  return html`<p class="summary quiet" role="status">${results} · ${t("revision")} ${number(reply.revision)} · ${taken.toFixed(0)} ms</p>`;
}

/**
 * The results.
 * @param {{reply, taken: number, why: string, uri: string, open, explain}} props
 */
export function Results({ reply, taken, why, uri, open, explain }) {
  const matches = matchesOf(reply);
  // On the scale of the best match a weak one would fill its bar.
  const most = isWeak(reply) ? 1 : Math.max(0.01, ...matches.map((match) => match.score || 0));
  return html`<div class="answer">
    <${Summary} reply=${reply} count=${matches.length} taken=${taken} />
    <${Degraded} reply=${reply} />
    <${Doubt} reply=${reply} />
    <${Questions} reply=${reply} />
    ${reply.queryPlan && html`<${Plan} plan=${reply.queryPlan} />`}
    ${!matches.length && html`<p class="empty">${t("noResults")}</p>`}
    <ol class="results" aria-label=${t("results", { n: "" }).trim()}>
      ${matches.map(
        (match) => html`<${Result} key=${match.uri} match=${match} most=${most} chosen=${uri === match.uri}
          isWhy=${why === match.uri} reply=${reply} matches=${matches} open=${open} explain=${explain} />`,
      )}
    </ol>
  </div>`;
}

function Result({ match, most, chosen, isWhy, reply, matches, open, explain }) {
  const trace = traceOf(reply, match);
  const parts = match.parts ? shares(match.parts) : { dense: match.score };
  return html`<li class=${`result ${chosen ? "is-chosen" : ""}`}>
    <div class="result-head">
      <span class="score">${Number(match.score).toFixed(3)}</span>
      <${Bar} parts=${parts} most=${most} label=${spoken(parts, match.score)} />
      <span class=${`type type-${TYPES[match.contextType]}`}>${typeName(match.contextType)}</span>
      ${trace && html`<button type="button" class="small" aria-expanded=${isWhy} onClick=${() => explain(isWhy ? "" : match.uri)}>${isWhy ? t("hideWhy") : t("why")}</button>`}
    </div>
    <button type="button" class="result-uri" onClick=${() => open(match.uri)}><bdi>${visible(match.uri)}</bdi></button><span class="result-lines quiet">${linesOf((match.passages || [])[0])}</span>
    <p class="result-text is-cut"><bdi>${visible(textOf(match))}</bdi></p>
    ${match.twin && html`<button type="button" class="result-uri twin" onClick=${() => open(match.twin)}>${t("twin")} <bdi>${visible(match.twin)}</bdi></button>`}
    ${isWhy && trace && html`<${Walk} trace=${trace} matches=${matches} chosen=${match.uri} open=${open} />`}
  </li>`;
}

/** Return the text that a result is shown with: its best passage, else its abstract. */
function textOf(match) {
  const [passage] = match.passages || [];
  const text = passage?.text || match.abstract || "";
  return text.length > 320 ? `${text.slice(0, 320)}…` : text;
}

/** Return the trace in which a result was found; a Search has one for each query of its plan. */
function traceOf(reply, match) {
  if (reply.trace) return reply.trace; // of several questions that of the first
  const found = (reply.queryResults || []).find((one) => one.trace && (one.hits || []).some((hit) => hit.uri === match.uri));
  return found?.trace;
}

function Plan({ plan }) {
  return html`<details class="plan">
    <summary>${t("plan")}: ${(plan.queries || []).length}${plan.reason ? ` · ${plan.reason}` : ""}</summary>
    <ul>
      ${(plan.queries || []).map(
        (query, index) => html`<li key=${index}><span class="quiet">${typeName(query.contextType)}</span> <bdi>${visible(query.query)}</bdi>${query.intent ? html` <span class="quiet">${visible(query.intent)}</span>` : ""}</li>`,
      )}
    </ul>
  </details>`;
}
