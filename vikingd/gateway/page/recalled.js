// The answer of Recall: memories with the parts of their salience, and what was left out.
import { html, useState } from "./vendor/vendor.js";
import { call } from "./api.js";
import { useAnswer } from "./answers.js";
import { Bar } from "./bars.js";
import { keyOf, kindName, MemoryRow } from "./memory_row.js";
import { Degraded, Doubt, Questions, Summary } from "./results.js";
import { SALIENCE } from "./scores.js";
import { day, number, t } from "./texts.js";
import { nameOf } from "./uris.js";
import { visible } from "./visible.js";

const MOST = 1_000_000; // tokens of a recall

/** The answer to the question of a route. */
export function Recalled({ route, open, changed, fail, drops }) {
  const request = { query: route.q, noTouch: true, scope: { withGlobal: true, project: route.project || undefined } };
  const { answer } = useAnswer("recall", request, fail);
  if (!answer) return html`<p class="quiet" aria-busy="true">${t("loading")}</p>`;
  const { reply } = answer;
  const memories = reply.results || [];
  const budget = Number(reply.totalTokens || 0) + Number(reply.budgetRemaining || 0);
  const shared = { open, changed, fail, drops };
  return html`<div class="answer">
    <${Summary} reply=${reply} count=${memories.length} taken=${answer.taken} />
    <p class="quiet">${t("path", { path: t(reply.path || "") })}${reply.reason ? ` · ${reply.reason}` : ""} · ${t("tokens", { used: number(reply.totalTokens), budget: number(budget) })}</p>
    <${Degraded} reply=${reply} />
    <${Doubt} reply=${reply} isRecall=${true} />
    <${Questions} reply=${reply} />
    ${!memories.length && html`<p class="empty">${t("noMemoryRecalled")}</p>`}
    <ol class="results plain" aria-label=${t("results", { n: "" }).trim()}>
      ${memories.map((memory) => html`<${Found} key=${keyOf(memory)} memory=${memory} ...${shared} />`)}
    </ol>
    <${LeftOut} key=${JSON.stringify(answer.request)} answer=${answer} ...${shared} />
  </div>`;
}

/** A recalled memory; a whole file is opened by its name. */
function Found({ memory, why, open, ...shared }) {
  const isWhole = !Number(memory.id || 0);
  const isEarlier = (memory.section || "").split(" > ").includes("Earlier");
  const row = { ...memory, text: memory.content, isPinned: memory.pinned, isEarlier, reinforcement: Number(memory.reinforcement || 0) };
  const about = [kindName(memory.memoryType), day(memory.time)].filter(Boolean).join(" · ");
  const parts = html`${why && html`<p class="why-not">${why}</p>`}${isEarlier && html`<p class="quiet">${t("countsHalf")}</p>`}
    ${memory.truncated && html`<p class="quiet">${t("truncated")}</p>`}${memory.parts && html`<${Salience} parts=${memory.parts} />`}`;
  const score = html`<span class="score">${Number(memory.score || 0).toFixed(3)}</span>`;
  if (!isWhole) return html`<${MemoryRow} memory=${row} about=${about} head=${score} open=${open} ...${shared}>${parts}<//>`;
  return html`<li class="memory result"><div class="memory-head">${score}
      <button type="button" class="memory-text" onClick=${() => open(memory.uri)}><bdi>${visible(memory.content)}</bdi></button>
      <span class="memory-about quiet">${nameOf(memory.uri)} · ${about}</span></div>${parts}</li>`;
}

/** The memories that the floor or the budget left out: the same recall without both finds them. */
function LeftOut({ answer, ...shared }) {
  const [found, setFound] = useState(null);
  const { reply, request } = answer;
  const ask = async () => {
    try {
      const all = await call("recall", { ...request, floor: 0, maxTokens: MOST });
      const taken = new Set((reply.results || []).map(keyOf));
      setFound((all.results || []).filter((memory) => !taken.has(keyOf(memory))));
    } catch (error) {
      shared.fail(error);
    }
  };
  const left = Number(reply.budgetRemaining || 0);
  const share = Number(reply.confidence?.inScope || 0).toFixed(2);
  const why = (memory) => (reply.leftOut ? t("belowFloor", { share }) : t(memory.tokenCount > left ? "noRoomFor" : "noRoomAfter", { n: number(memory.tokenCount), left: number(left) }));
  if (!found) return html`<button type="button" class="small" onClick=${ask}>${t("showLeftOut")}</button>`;
  return html`<section class="left-out"><h2>${t("leftOutTitle", { n: number(found.length) })}</h2>
    ${!found.length && html`<p class="quiet">${t("nothingLeftOut")}</p>`}
    <ol class="plain">${found.map((memory) => html`<${Found} key=${keyOf(memory)} memory=${memory} why=${why(memory)} ...${shared} />`)}</ol>
  </section>`;
}

/** The parts of a salience, each from 0 to 1 before its weight. */
function Salience({ parts }) {
  return html`<dl class="meters">
    ${SALIENCE.map((name) => {
      const value = Number(parts[name] || 0);
      return html`<div key=${name}>
        <dt class="quiet">${t(name)}</dt>
        <dd><${Bar} parts=${{ [name]: value }} most=${1} label=${`${t(name)} ${value.toFixed(2)}`} />${value.toFixed(2)}</dd>
      </div>`;
    })}
  </dl>`;
}
