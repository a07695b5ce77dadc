// The view of the context: the text for a prompt within a budget, its sources, and what has no place in it.
import { html, useEffect, useRef, useState } from "./vendor/vendor.js";
import { useAnswer } from "./answers.js";
import { Ask } from "./ask.js";
import { Copy } from "./copy.js";
import { Degraded, Doubt } from "./results.js";
import { go } from "./route.js";
import { number, t } from "./texts.js";
import { linesOf, nameOf } from "./uris.js";
import { spelled, visible } from "./visible.js";

const BUDGETS = [250, 500, 1000, 2000, 3000, 4000, 6000, 8000, 12_000, 16_000, 24_000, 32_000, 64_000, 128_000];
const PAUSE = 250; // milliseconds without a move before a budget counts
const REASONS = ["DROP_REASON_BUDGET", "DROP_REASON_DUPLICATE", "DROP_REASON_EMPTY", "DROP_REASON_GONE"];

/** The view. */
export function Context({ route, open, fail }) {
  const budget = BUDGETS.includes(Number(route.budget)) ? Number(route.budget) : 0; // 0: the daemon's own
  const request = route.q && {
    find: { query: route.q, targetUri: route.target || undefined },
    ...(budget ? { maxTokens: budget, reserveTokens: 0 } : {}),
    noTouch: true,
  };
  const { answer, isBusy } = useAnswer("build_context", request || null, fail);
  return html`<div class="view prompt-view" aria-busy=${isBusy}>
    <${Ask} q=${route.q} ask=${(q) => go({ q, uri: "", lines: "" })} name=${t("contextQuestion")} hint=${t("contextHint")} />
    ${answer ? html`<${Built} reply=${answer.reply} budget=${budget} open=${open} />` : !route.q && html`<div class="empty"><p>${t("contextAbout")}</p></div>`}
  </div>`;
}

function Built({ reply, budget, open }) {
  const [lit, light] = useState("");
  const prompt = useRef(null);
  const used = Number(reply.usedTokens || 0);
  const most = Number(reply.budgetTokens || 0);
  const sources = sourcesOf(reply);
  const text = reply.text || "";
  const choose = (uri) => {
    light(uri === lit ? "" : uri);
    prompt.current?.querySelector(`[data-source="${sources.findIndex((one) => one.uri === uri)}"]`)?.scrollIntoView({ block: "nearest" });
  };
  return html`<div class="answer">
    <${Budget} budget=${budget} most=${most} />
    <${Degraded} reply=${reply} />
    <${Doubt} reply=${reply} />
    <div class="prompt-columns">
      <section aria-label=${t("prompt")}>
        <div class="prompt-head"><h2>${t("prompt")}</h2><span class="summary quiet" role="status">${t("tokens", { used: number(used), budget: number(most) })}${reply.approximate ? ` (${t("estimated")})` : ""}</span><${Copy} text=${text} /></div>
        ${text
          ? html`<pre class="prompt" tabindex="0" ref=${prompt} aria-label=${t("prompt")}><bdi>${piecesOf(reply, sources).map(({ piece, source }, i) => (source < 0 ? visible(piece) : html`<span key=${i} data-source=${source} class=${`cited ${sources[source].uri === lit ? "is-lit" : ""}`}>${visible(piece)}</span>`))}</bdi></pre>`
          : html`<p class="empty">${t(reply.dropped?.length ? "promptNoRoom" : "promptEmpty")}</p>`}
      </section>
      <div class="sources">
        <section>
          <h2>${t("taken")} (${number(sources.length)})</h2>
          <ol class="plain">
            ${sources.map((one) => html`<li key=${one.uri} class=${`source ${one.uri === lit ? "is-lit" : ""}`}>
              <button type="button" class="source-name" aria-pressed=${one.uri === lit} title=${t("showInPrompt")} onClick=${() => choose(one.uri)}><span class="badge">${one.marker}</span> <bdi>${visible(one.title)}</bdi></button>${one.level < 2 && html` <span class="badge">${t(one.level ? "overview" : "abstract")}</span>`}
              <span class="share" title=${t("shareOfText", { n: number(Math.round(100 * one.share)) })}><span style=${{ width: `${100 * one.share}%` }}></span></span>
              <button type="button" class="link" onClick=${() => open(one.uri, one.lines)}><bdi>${visible(one.uri)}</bdi></button><span class="quiet">${one.places}</span>
            </li>`)}
          </ol>
        </section>
        <${Dropped} dropped=${reply.dropped || []} used=${used} most=${most} open=${open} />
      </div>
    </div>
  </div>`;
}

/** The slider of the budget; a move counts when it rests. */
function Budget({ budget, most }) {
  const [chosen, choose] = useState(budget);
  useEffect(() => choose(budget), [budget]);
  useEffect(() => {
    if (chosen === budget) return undefined;
    const timer = setTimeout(() => go({ budget: String(chosen) }), PAUSE);
    return () => clearTimeout(timer);
  }, [chosen]);
  const shown = chosen || most;
  const at = BUDGETS.findLastIndex((one) => one <= shown);
  return html`<div class="budget">
    <label>${t("budget")} <input type="range" min="0" max=${BUDGETS.length - 1} step="1" value=${Math.max(0, at)} aria-valuetext=${t("tokensOnly", { n: number(shown) })} onInput=${(event) => choose(BUDGETS[event.currentTarget.value])} /></label>
    <output>${t("tokensOnly", { n: number(shown) })}</output>
  </div>`;
}

/** The pieces that are not in the text, by the reason in words. */
function Dropped({ dropped, used, most, open }) {
  if (!dropped.length) return null;
  return html`<section class="dropped"><h2>${t("dropped")} (${number(dropped.length)})</h2>
    ${REASONS.map((reason) => [reason, dropped.filter((one) => one.reason === reason)])
      .filter(([, members]) => members.length)
      .map(([reason, members]) => html`<details key=${reason} open=${members.length <= 5}>
        <summary>${t(reason, { n: number(members.length), left: number(most - used) })}</summary>
        <ul class="plain">${members.map((one, i) => html`<li key=${i}><button type="button" class="link" onClick=${() => open(one.uri)}><bdi>${visible(one.uri)}</bdi></button> <span class="quiet"><bdi>${visible(one.section)}</bdi></span></li>`)}</ul>
      </details>`)}
  </section>`;
}

/** Return the sources of a text in their order: {uri, marker, title, lines, places, share}, the share of its characters. */
function sourcesOf(reply) {
  const found = new Map();
  const all = (reply.citations || []).reduce((sum, one) => sum + one.end - (one.start || 0), 0);
  for (const one of reply.citations || []) {
    const before = found.get(one.uri) || { uri: one.uri, marker: one.marker, places: "", share: 0, level: one.level || 0, lines: one.firstLine ? `${one.firstLine}-${one.lastLine}` : "", title: one.section?.split(" > ")[0] || nameOf(one.uri) };
    found.set(one.uri, { ...before, places: [before.places, linesOf(one)].filter(Boolean).join(" "), share: before.share + (one.end - (one.start || 0)) / (all || 1) });
  }
  return [...found.values()];
}

/** Return the text in pieces: {piece, source}, an index of `sources`; -1: markers and headings. */
function piecesOf(reply, sources) {
  const all = Array.from(reply.text);
  const pieces = [];
  let at = 0;
  for (const { uri, start = 0, end } of reply.citations || []) {
    if (start > at) pieces.push({ piece: all.slice(at, start).join(""), source: -1 });
    pieces.push({ piece: all.slice(Math.max(at, start), end).join(""), source: sources.findIndex((one) => one.uri === uri) });
    at = Math.max(at, end);
  }
  return [...pieces, { piece: all.slice(at).join(""), source: -1 }];
}
