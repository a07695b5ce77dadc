// The answer of Recall: memories, and the parts of their salience.
import { html, useEffect, useRef, useState } from "./vendor/vendor.js";
import { useAnswer } from "./answers.js";
import { call } from "./api.js";
import { Ask } from "./ask.js";
import { Bar } from "./bars.js";
import { Degraded, Doubt, Summary } from "./results.js";
import { go } from "./route.js";
import { SALIENCE } from "./scores.js";
import { number, t } from "./texts.js";
import { useUnsaved } from "./unsaved.js";
import { spelled, visible } from "./visible.js";

/** The view. */
export function Memories({ route, open, changed, fail }) {
  const { q, project } = route;
  const field = useRef(null);
  const { answer, isBusy } = useAnswer("recall", q ? { query: q, noTouch: true, scope: { withGlobal: true, project: project || undefined } } : null, fail);
  useEffect(() => {
    field.current.value = project;
  }, [project]);
  return html`<div class="view" aria-busy=${isBusy}>
    <${Ask} q=${q} ask=${(next) => go({ q: next, project: field.current.value.trim() })}>
      <input ref=${field} class="project" aria-label=${t("project")} placeholder=${t("project")} title=${t("projectHint")} defaultValue=${project} autocomplete="off" />
    <//>
    ${answer && html`<${Recalled} reply=${answer.reply} taken=${answer.taken} project=${project} open=${open} changed=${changed} fail=${fail} />`}
  </div>`;
}

function Recalled({ reply, taken, project, open, changed, fail }) {
  const memories = reply.results || [];
  const budget = Number(reply.totalTokens || 0) + Number(reply.budgetRemaining || 0);
  return html`<div class="answer">
    <${Summary} reply=${reply} count=${memories.length} taken=${taken} />
    <p class="quiet">${t("path", { path: t(reply.path || "") })}${reply.reason ? ` · ${reply.reason}` : ""} · ${t("tokens", { used: number(reply.totalTokens), budget: number(budget) })}</p>
    <${Degraded} reply=${reply} />
    <${Doubt} reply=${reply} isRecall=${true} />
    <${Remember} project=${project} open=${open} changed=${changed} fail=${fail} />
    ${!memories.length && html`<p class="empty">${t("noResults")}</p>`}
    <ol class="results" aria-label=${t("results", { n: "" }).trim()}>
      ${memories.map(
        (memory) => html`<li key=${`${memory.uri} ${memory.id}`} class="result">
          <div class="result-head">
            <span class="score">${Number(memory.score || 0).toFixed(3)}</span>
            <span class="type type-memory">${memory.memoryType || t("memory")}</span>
            ${memory.pinned && html`<span class="badge" title=${t("pinned")}>📌</span>`}
            ${memory.reinforcement > 0 && html`<span class="badge">×${number(memory.reinforcement)}</span>`}
          </div>
          <p class="result-text is-cut"><bdi>${visible(memory.content)}</bdi></p>
          ${memory.parts && html`<${Salience} parts=${memory.parts} />`}
          <button type="button" class="result-uri" onClick=${() => open(memory.uri)}><bdi>${visible(memory.uri)}</bdi></button>
        </li>`,
      )}
    </ol>
  </div>`;
}

/** The parts of a salience, each from 0 to 1 before its weight. */
function Salience({ parts }) {
  return html`<dl class="meters">
    ${SALIENCE.map((name) => {
      const value = parts[name] || 0;
      return html`<div key=${name}>
        <dt class="quiet">${t(name)}</dt>
        <${Bar} parts=${{ [name]: value }} most=${1} label=${`${t(name)} ${value.toFixed(2)}`} />
        <dd>${value.toFixed(2)}</dd>
      </div>`;
    })}
  </dl>`;
}

const KINDS = ["preferences", "profile", "entities", "events", "journal"];

/** The form that stores a memory: of a project, or of none. */
function Remember({ project, open, changed, fail }) {
  const [text, setText] = useState("");
  const [kind, setKind] = useState(KINDS[0]);
  const [done, setDone] = useState(null);
  const name = project ? t("rememberIn", { project: spelled(project) }) : t("remember");
  useUnsaved(text !== "", (next) => next.mode !== "recall" || !next.q);
  const remember = async (event) => {
    event.preventDefault();
    try {
      setDone(await call("remember", { text, memoryType: kind, scope: project ? { project } : { withGlobal: true } }));
      setText("");
      changed();
    } catch (error) {
      fail(error);
    }
  };
  return html`<details class="new"><summary>${name}</summary>
    <form onSubmit=${remember}>
      <textarea aria-label=${name} value=${text} onInput=${(event) => setText(event.currentTarget.value)} required></textarea>
      <div class="actions">
        <select aria-label=${t("kind")} value=${kind} onChange=${(event) => setKind(event.currentTarget.value)}>
          ${KINDS.map((name) => html`<option key=${name}>${name}</option>`)}
        </select>
        <button class="primary">${t("save")}</button>
      </div>
      ${done && html`<p class="note" role="status">${t("saved")} <button type="button" class="link" onClick=${() => open(done.uri)}><bdi>${visible(done.uri)}</bdi></button></p>`}
    </form></details>`;
}
