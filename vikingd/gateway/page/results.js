// The answers of a search: results with their strength, and why each was found.
import { html, useState } from "./vendor/vendor.js";
import { Bar, Legend, spoken } from "./bars.js";
import { useEscape } from "./escape.js";
import { headingOf, markdown } from "./markdown.js";
import { go } from "./route.js";
import { PARTS, shares } from "./scores.js";
import { isWeak, STRENGTHS, strengths, wordOf } from "./strength.js";
import { day, number, t } from "./texts.js";
import { linesOf, nameOf, parentOf, ROOT } from "./uris.js";
import { spelled, visible } from "./visible.js";
import { Walk } from "./walk.js";
import { Terms } from "./words.js";

const TYPES = { CONTEXT_TYPE_MEMORY: "memory", CONTEXT_TYPE_RESOURCE: "resource", CONTEXT_TYPE_SKILL: "skill" };
const SHOWN = 500; // characters of a passage
const DAY = 24 * 3600 * 1000; // milliseconds

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

/** The words for an answer that is probably about something else; nothing for a strong one. */
export function Doubt({ reply, isRecall }) {
  if (!isWeak(reply)) return null;
  const name = reply.confidence.strength === "STRENGTH_WEAK" ? "weak" : "nothing";
  const share = Number(reply.confidence.inScope || 0).toFixed(2);
  const leftOut = reply.leftOut ? ` ${t("leftOut", { n: number(reply.leftOut) })}` : "";
  return html`<p class="note is-warning" role="status">${t(name + (isRecall ? "Recall" : "Answer"))} (${share})${leftOut}</p>`;
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

/** Return the title of a result: of its file, else the heading of its passage, else its name. */
function titleOf(match, details) {
  const { title } = details.get(match.uri) || {};
  if (title && !title.includes("/")) return headingOf(title);
  return headingOf((match.passages || [])[0]?.section?.split(" > ")[0] || nameOf(match.uri));
}

const ORDERS = {
  newest: (details) => (a, b) => String(details.get(b.uri)?.time || "").localeCompare(details.get(a.uri)?.time || ""),
  name: () => (a, b) => a.uri.localeCompare(b.uri),
};

/**
 * The results.
 * @param {{route, reply, taken: number, limit: number, most: number, details: Map, open}} props `limit` is that
 *   of the request, `most` the largest one
 */
export function Results({ route, reply, taken, limit, most, details, open }) {
  const all = matchesOf(reply);
  const strengthOf = strengths(reply, all);
  const least = STRENGTHS.indexOf(route.strength);
  const since = route.since ? Date.now() - route.since * DAY : 0;
  const fits = ({ uri, score }) =>
    (least < 0 || STRENGTHS.indexOf(wordOf(strengthOf(score), reply)) <= least) &&
    (!since || !details.has(uri) || new Date(details.get(uri).time) >= since);
  const matches = all.filter(fits);
  if (ORDERS[route.sort]) matches.sort(ORDERS[route.sort](details));
  const [current, setCurrent] = useState("");
  const at = Math.max(0, matches.findIndex(({ uri }) => uri === current));
  const names = PARTS.filter((name) => all.some(({ parts }) => parts && shares(parts)[name] > 0.0005));
  const explain = (why) => go({ why });
  useEscape(Boolean(route.why), () => explain(""));

  const onKeyDown = (event) => {
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: matches.length - 1 }[event.key];
    if (to === undefined || !event.target.matches(".result-title")) return;
    event.preventDefault();
    event.currentTarget.querySelectorAll(".result-title")[Math.min(to, matches.length - 1)]?.focus();
  };
  const hidden = all.length - matches.length;
  return html`<div class="answer">
    <div class="answer-head">
      <${Summary} reply=${reply} count=${matches.length} taken=${taken} />
      <label class="sort">${t("sort")} <select value=${route.sort} onChange=${(event) => go({ sort: event.currentTarget.value })}>
        ${["", ...Object.keys(ORDERS)].map((name) => html`<option key=${name} value=${name}>${t(`sort.${name}`)}</option>`)}
      </select></label>
    </div>
    <${Degraded} reply=${reply} />
    <${Doubt} reply=${reply} />
    <${Questions} reply=${reply} />
    ${reply.queryPlan && html`<${Plan} plan=${reply.queryPlan} />`}
    ${all.length > 0 && html`<${Legend} names=${names} />`}
    ${!all.length && html`<p class="empty">${t("noResults")}</p>`}
    ${hidden > 0 && html`<p class="note">${t("filteredOut", { n: number(hidden), all: number(all.length) })}</p>`}
    <ol class="results" aria-label=${t("results", { n: "" }).trim()} onKeyDown=${onKeyDown}>
      ${matches.map((match, index) => html`<${Result} key=${match.uri} match=${match} strength=${strengthOf(match.score)} details=${details} chosen=${route.uri === match.uri}
        isCurrent=${index === at} onFocus=${() => setCurrent(match.uri)} isWhy=${route.why === match.uri} reply=${reply} matches=${all} open=${open} explain=${explain} />`)}
    </ol>
    ${all.length >= limit && limit < most && html`<button type="button" class="more" onClick=${() => go({ count: String(Math.min(most, limit * 2)) })}>${t("moreResults")}</button>`}
  </div>`;
}

function Result({ match, strength, details, chosen, isCurrent, onFocus, isWhy, reply, matches, open, explain }) {
  const trace = traceOf(reply, match);
  const parts = match.parts ? shares(match.parts) : { dense: match.score };
  const [passage, ...further] = match.passages || [];
  const terms = new Terms(trace?.terms || []);
  const show = (one) => open(match.uri, one ? linesOf(one).slice(1) : "");
  const known = details.get(match.uri);
  const tab = isCurrent ? 0 : -1;
  return html`<li class=${`result ${chosen ? "is-chosen" : ""}`} onFocusCapture=${onFocus}>
    <div class="result-head">
      <button type="button" class="result-title" tabindex=${tab} onClick=${() => show(passage)}><bdi>${terms.mark(titleOf(match, details))}</bdi></button>
      <span class="strength">
        <${Bar} parts=${parts} most=${(match.score || 0) / (strength || 1)} label=${spoken(parts, match.score)} />
        <span>${t(wordOf(strength, reply))}</span> <span class="score quiet">${Number(match.score).toFixed(3)}</span>
      </span>
    </div>
    <p class="crumbs quiet"><span class=${`type type-${TYPES[match.contextType]}`}>${typeName(match.contextType)}</span> <bdi title=${spelled(match.uri)}>${visible(crumbs(match.uri))}${linesOf(passage)}</bdi>${known?.time && html`<time datetime=${known.time}>${day(known.time)}</time>`}</p>
    <${Passage} text=${passage?.text || match.abstract} section=${passage?.section} terms=${terms} title=${titleOf(match, details)} />
    <div class="result-foot">
      ${trace && html`<button type="button" class="small why" tabindex=${tab} aria-expanded=${isWhy} onClick=${() => explain(isWhy ? "" : match.uri)}>${isWhy ? t("hideWhy") : t("why")}</button>`}
      ${(further.length > 0 || match.twin) && html`<details class="further"><summary tabindex=${tab}>${[further.length === 1 ? t("onePassage") : further.length > 1 && t("passages", { n: further.length }), match.twin && t("twin")].filter(Boolean).join(" · ")}</summary>
        ${further.map((one) => html`<div key=${one.ordinal} class="further-passage"><button type="button" class="link" onClick=${() => show(one)}><bdi>${visible(headingOf(one.section || nameOf(match.uri)))}</bdi>${linesOf(one)}</button>
          <${Passage} text=${one.text} terms=${terms} /></div>`)}
        ${match.twin && html`<button type="button" class="link twin" onClick=${() => open(match.twin)}>${t("twin")}: <bdi>${visible(match.twin)}</bdi></button>`}
      </details>`}
    </div>
    ${isWhy && trace && html`<${Walk} trace=${trace} matches=${matches} chosen=${match.uri} open=${open} />`}
  </li>`;
}

/** A passage as it is read, below its headings; of a long one the part with the words of the question. */
function Passage({ text = "", section = "", terms, title }) {
  const heading = section.split(" > ").map(headingOf).filter((one) => one !== title).join(" › ");
  return html`<div class="passage text">${heading && html`<p class="passage-heading"><bdi>${terms.mark(heading)}</bdi></p>`}${markdown(terms.excerpt(text, SHOWN), { mark: terms.mark, title })}</div>`;
}

/** Return a URI as a path of names. */
const crumbs = (uri) => [...(parentOf(uri) || ROOT).slice(ROOT.length).split("/"), nameOf(uri)].filter(Boolean).join(" › ");

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
