// The search before a question: the first run of an empty store, else what was asked before.
import { html, useEffect, useState } from "./vendor/vendor.js";
import { call, loadDemo } from "./api.js";
import { Code } from "./copy.js";
import { Recent } from "./filters.js";
import { number, t } from "./texts.js";
import { Upload } from "./upload.js";
import { nameOf } from "./uris.js";
import { visible } from "./visible.js";

const QUESTIONS = ["demo.allergies", "demo.limits", "demo.code", "demo.tables"];
const PROPOSED = 4; // questions about files that were read
const EVERY = 2000; // milliseconds

const IMPORT = "vikingctl import ./docs viking://resources/docs";
const models = () => JSON.stringify({ mcpServers: { vikingd: { type: "http", url: `${location.origin}/mcp` } } }, null, 2);

/** Tell whether the store has a file that the caller may read. */
const isEmpty = async () => !((await call("glob", { pattern: "**", kind: "NODE_KIND_FILE", pageSize: 1 })).entries || []).length;

/**
 * The view before a question.
 * @param {{changes: number, changed, open, fail, ask: (q: string) => void}} props
 */
export function Welcome({ changes, changed, fail, ask }) {
  const [empty, setEmpty] = useState(null);
  const [proposed, propose] = useState([]);
  const [loading, setLoading] = useState(false);
  const [wasEmpty, setWasEmpty] = useState(false); // at one time since the view is shown
  useEffect(() => {
    isEmpty().then((found) => {
      setEmpty(found);
      if (found) setWasEmpty(true);
    }, fail);
  }, [changes]);
  const read = (paths) => {
    propose(paths.slice(0, PROPOSED).map((path) => nameOf(path).replace(/\.[^.]+$/, "").replace(/[-_]+/g, " ")));
    changed();
  };
  const demo = async () => {
    setLoading(true);
    try {
      await loadDemo();
      propose(QUESTIONS.map((key) => t(key)));
      changed();
    } catch (error) {
      fail(error);
    } finally {
      setLoading(false);
    }
  };
  if (empty === null) return null;
  return html`<div class="welcome">
    <h1>${t(empty ? "firstRun" : "welcome")}</h1>
    <p class="quiet">${t(empty ? "firstRunAbout" : "welcomeAbout")}</p>
    <${Embedder} changes=${changes} />
    ${proposed.length > 0 && html`<section class="proposed" role="status"><h2>${t("tryOne")}</h2>
      ${proposed.map((q) => html`<button key=${q} type="button" class="chip is-large" onClick=${() => ask(q)}><bdi>${visible(q)}</bdi></button>`)}</section>`}
    ${!proposed.length && !empty && html`<${Recent} ask=${ask} />`}
    <details class="adding" open=${wasEmpty}><summary>${t("adding")}</summary><div class="ways">
      <${Upload} done=${read} fail=${fail} />
      <div class="more-ways"><section class="way"><h2>${t("demo")}</h2><p class="quiet">${t("demoAbout")}</p>
        <div class="actions"><button type="button" disabled=${loading} onClick=${demo}>${t(loading ? "loading" : "loadDemo")}</button></div></section>
      <section class="way"><h2>${t("fromTerminal")}</h2><p class="quiet">${t("fromTerminalAbout")}</p><${Code} text=${IMPORT} label=${t("fromTerminal")} /></section>
      <section class="way"><h2>${t("forModels")}</h2><p class="quiet">${t("forModelsAbout")}</p><${Code} text=${models()} label=${t("forModels")} /></section></div>
    </div></details>
    <p class="quiet keys">${t("help")}</p>
  </div>`;
}

/** The state of the embedder; nothing for a key that may not ask for it. */
function Embedder({ changes }) {
  const [stats, setStats] = useState(null);
  useEffect(() => {
    let timer;
    const abort = new AbortController();
    const ask = () =>
      call("stats", {}, abort.signal).then((found) => {
        setStats(found.embedder || {});
        timer = setTimeout(ask, EVERY);
      }, () => abort.signal.aborted || setStats(null));
    ask();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [changes]);
  if (!stats) return null;
  const backlog = Number(stats.backlog || 0);
  const text = !stats.provider || stats.provider === "none" ? t("noEmbedder") : stats.lastError || stats.stalled ? t("embedderFails", { text: stats.lastError || stats.stalled }) : backlog ? t("embedding", { n: number(backlog) }) : t("embedderReady", { name: stats.provider });
  return html`<p class="embedder" role="status"><span class=${`dot ${stats.lastError || stats.provider === "none" ? "is-off" : ""}`}></span>${visible(text)}</p>`;
}
