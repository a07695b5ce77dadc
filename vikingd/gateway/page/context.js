// The answer of BuildContext: the text for a prompt, and what the budget took and dropped.
import { html } from "./vendor/vendor.js";
import { useAnswer } from "./answers.js";
import { Ask } from "./ask.js";
import { Degraded, Doubt } from "./results.js";
import { go } from "./route.js";
import { number, t } from "./texts.js";
import { linesOf } from "./uris.js";
import { visible } from "./visible.js";

/** The view. */
export function Context({ route, open, fail }) {
  const { answer, isBusy } = useAnswer("build_context", route.q ? { find: { query: route.q, targetUri: route.target || undefined, limit: 20 } } : null, fail);
  return html`<div class="view" aria-busy=${isBusy}>
    <${Ask} q=${route.q} ask=${(q) => go({ q })} />
    ${answer && html`<${Built} reply=${answer.reply} taken=${answer.taken} open=${open} />`}
  </div>`;
}

function Built({ reply, taken, open }) {
  const used = Number(reply.usedTokens || 0);
  const budget = Number(reply.budgetTokens || 0);
  return html`<div class="answer">
    <p class="summary quiet" role="status">${t("tokens", { used: number(used), budget: number(budget) })} · ${t("revision")} ${number(reply.revision)} · ${taken.toFixed(0)} ms</p>
    <progress class="budget" max=${budget || 1} value=${used} aria-label=${t("tokens", { used, budget })}></progress>
    <${Degraded} reply=${reply} />
    <${Doubt} reply=${reply} />
    <div class="columns">
      <section>
        <h3>${t("taken")} (${(reply.citations || []).length})</h3>
        <ul class="plain">
          ${(reply.citations || []).map(
            (one, index) => html`<li key=${index}><span class="badge">${one.marker}</span> <button type="button" class="link" onClick=${() => open(one.uri)}><bdi>${visible(one.uri)}</bdi></button><span class="quiet">${linesOf(one)}</span> <span class="quiet">${visible(one.section)}</span></li>`,
          )}
        </ul>
      </section>
      ${(reply.dropped || []).length > 0 &&
      html`<section>
        <h3>${t("dropped")} (${reply.dropped.length})</h3>
        <ul class="plain">
          ${reply.dropped.map(
            (one, index) => html`<li key=${index}><span class="badge is-off">${t(one.reason)}</span> <button type="button" class="link" onClick=${() => open(one.uri)}><bdi>${visible(one.uri)}</bdi></button> <span class="quiet">${visible(one.section)}</span></li>`,
          )}
        </ul>
      </section>`}
    </div>
    <pre class="prompt" tabindex="0"><bdi>${visible(reply.text)}</bdi></pre>
  </div>`;
}
