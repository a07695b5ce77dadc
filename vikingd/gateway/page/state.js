// The view of the state: what is wrong, the backlog, the index, the queues, keys and tenants, and the API.
import { html, useEffect, useState } from "./vendor/vendor.js";
import { call } from "./api.js";
import { day, number, t, time } from "./texts.js";
import { visible } from "./visible.js";

const EVERY = 5000; // milliseconds
const KILO = 1024;
const LINKS = [["/v1/docs", "apiDocs"], ["/v1/openapi.json", "apiOpenapi"], ["/healthz", "apiHealth"]];

/** The view. */
export function State({ changes, fail }) {
  const [stats, setStats] = useState(null);
  const [isDenied, setDenied] = useState(false);
  useEffect(() => {
    let timer;
    const abort = new AbortController();
    const ask = async () => {
      clearTimeout(timer);
      if (document.hidden) return;
      try {
        setStats(await call("stats", {}, abort.signal));
        clearTimeout(timer);
        timer = setTimeout(ask, EVERY);
      } catch (error) {
        if (abort.signal.aborted) return;
        setStats(null);
        if (error.status === 403) setDenied(true);
        else fail(error);
      }
    };
    ask();
    document.addEventListener("visibilitychange", ask);
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", ask);
    };
  }, [changes]);
  return html`<div class="view state">
    <h1>${t("state")}</h1>
    ${isDenied && html`<p class="note">${t("stateDenied")}</p>`}
    ${!stats && !isDenied && html`<p class="quiet" aria-busy="true">${t("loading")}</p>`}
    ${stats && html`<${Problems} stats=${stats} /><div class="cards"><${Figures} stats=${stats} /></div>`}
    <${Table} rpc="list_keys" part="keys" title="keys" none="noKeys" row=${keyRow} fail=${fail} />
    <${Table} rpc="list_tenants" part="tenants" title="tenants" row=${tenantRow} fail=${fail} />
    <section><h2>${t("api")}</h2><ul class="plain">${LINKS.map(([path, name]) => html`<li key=${path}><a href=${path}>${t(name)}</a> <code class="quiet">${path}</code></li>`)}</ul></section>
  </div>`;
}

/** What is wrong: the errors that the daemon tells, each with its place; or that nothing is. */
function Problems({ stats }) {
  const { embedder = {}, describer = {}, index = {}, queues = [] } = stats;
  const refused = queues.reduce((sum, queue) => sum + Number(queue.refused || 0), 0);
  const found = [
    ["writesRefused", stats.problem],
    ["embedder", embedder.stalled],
    ["embedder", embedder.lastError, embedder.retryTime],
    ["describer", describer.lastError, describer.retryTime],
    ["index", index.problem],
    ["index", Number(index.oldBases || 0) > 4 && t("oldBases", { n: number(index.oldBases) })],
    ["queues", refused > 0 && t("refused", { n: number(refused) })],
  ].filter(([, text]) => text);
  if (!found.length) return html`<p class="note embedder" role="status"><span class="dot"></span> ${t("nothingWrong")}</p>`;
  return html`<ul class="plain" role="status">${found.map(([place, text, retry]) => html`<li key=${place + text} class="note is-warning"><strong>${t(place)}</strong> <bdi>${visible(text)}</bdi>${retry ? ` · ${t("retryAt", { time: time(retry) })}` : ""}</li>`)}</ul>`;
}

/** The cards with figures; a figure without a value is left out. */
function Figures({ stats }) {
  const { embedder = {}, describer = {}, index = {}, queues = [] } = stats;
  const left = Number(embedder.charactersPerSecond) ? Number(embedder.backlogCharacters || 0) / embedder.charactersPerSecond : 0;
  const texts = Number(stats.texts || 0);
  const backlog = Number(embedder.backlog || 0);
  const card = (name, rows, more) => html`<section class="card"><h2>${t(name)}</h2>
    <dl>${rows.filter(([, value]) => value !== "" && value !== undefined).map(([label, value]) => html`<div key=${label}><dt>${t(label)}</dt><dd><bdi>${visible(value)}</bdi></dd></div>`)}</dl>${more}</section>`;
  return html`
    ${card("vectors", [
      ["model", [embedder.provider, embedder.model].filter((one, i, all) => one && all.indexOf(one) === i).join(" · ")],
      ["dimension", embedder.dimension ? number(embedder.dimension) : ""],
      ["waitingTexts", number(backlog)],
      ["timeLeft", backlog && left ? duration(left) : ""],
      ["embeddedTexts", number(embedder.embedded)],
      ["reusedTexts", Number(embedder.reused || 0) ? number(embedder.reused) : ""],
    ], texts > 0 && html`<progress max=${texts} value=${Number(stats.vectors || 0)} aria-label=${t("withVectors", { n: number(stats.vectors), all: number(texts) })}></progress><p class="quiet">${t("withVectors", { n: number(stats.vectors), all: number(texts) })}</p>`)}
    ${card("stored", [
      ["filesTotal", number(stats.files)],
      ["directoriesTotal", number(stats.directories)],
      ["textsTotal", number(texts)],
      ["linksTotal", number(stats.relations)],
      ["revisionTotal", number(stats.revision)],
      ["onDisk", size(stats.storeBytes)],
    ])}
    ${card("index", [
      ["generation", number(index.generation)],
      ["baseTexts", number(index.baseTexts)],
      ["tailTexts", number(index.tailTexts)],
      ["deadTexts", number(index.deadTexts)],
      ["onDisk", size(index.bytesOnDisk)],
      ["compacting", index.compacting ? t("yes") : ""],
      ["rebuilt", index.rebuilt || ""],
    ])}
    ${card("queues", queues.flatMap(({ queue, waiting, refused }) => [[`queue.${queue}`, t("queueNow", { n: number(waiting), refused: number(refused) })]]))}
    ${describer.model && card("describer", [
      ["model", describer.model],
      ["waitingContexts", number(describer.backlog)],
      ["described", number(describer.described)],
      ["unusable", number(describer.refused)],
      ["tokensToday", Number(describer.tokensPerDay || 0) ? `${number(describer.tokensToday)} / ${number(describer.tokensPerDay)}` : number(describer.tokensToday)],
    ])}
    ${card("daemon", [
      ["version", stats.version],
      ["startedAt", time(stats.startTime)],
      ["store", stats.storePath],
      ["role", t(stats.reader ? "reader" : "writer")],
    ])}`;
}

/** The rows of a list that only some callers may ask for; nothing for the others. */
function Table({ rpc, part, title, none, row, fail }) {
  const [rows, setRows] = useState(null);
  useEffect(() => {
    const abort = new AbortController();
    call(rpc, {}, abort.signal)
      .then((reply) => setRows(reply[part] || []))
      .catch((error) => [401, 403].includes(error.status) || fail(error));
    return () => abort.abort();
  }, []);
  if (!rows || (!rows.length && !none)) return null;
  if (!rows.length) return html`<section><h2>${t(title)}</h2><p class="quiet">${t(none)}</p></section>`;
  const heads = Object.keys(row(rows[0]));
  return html`<section><h2>${t(title)}</h2><div class="wide" tabindex="0" role="region" aria-label=${t(title)}><table>
    <thead><tr>${heads.map((head) => html`<th key=${head} scope="col">${t(head)}</th>`)}</tr></thead>
    <tbody>${rows.map((one, i) => html`<tr key=${i}>${Object.entries(row(one)).map(([head, value]) => html`<td key=${head}><bdi>${visible(value)}</bdi></td>`)}</tr>`)}</tbody>
  </table></div></section>`;
}

const keyRow = (key) => ({
  id: key.id,
  user: key.user || "—",
  rights: key.operator ? t("operator") : (key.grants || []).map(({ right, uriPrefix }) => `${t(right)} ${uriPrefix || "viking://"}`).join(", "),
  note: key.note || "",
  created: day(key.createTime),
  lastUse: key.lastUseTime ? time(key.lastUseTime) : t("never"),
  validity: key.revokeTime ? t("revokedAt", { time: day(key.revokeTime) }) : key.expireTime ? t("until", { time: day(key.expireTime) }) : t("noEnd"),
});

const tenantRow = ({ name, createTime, limits = {}, open }) => ({
  name,
  created: day(createTime) || "—",
  isOpen: t(open ? "yes" : "no"),
  limits: Object.entries(limits).map(([limit, value]) => `${t(`limit.${limit}`)} ${number(value)}`).join(", ") || t("noLimits"),
});

/** Return a size in words, such as 1.2 MiB. */
function size(bytes) {
  let value = Number(bytes || 0);
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; value >= KILO && at < units.length - 1; at += 1) value /= KILO;
  return `${number(at && value < 10 ? Math.round(10 * value) / 10 : Math.round(value))} ${units[at]}`;
}

/** Return a duration in words; it is given in seconds. */
const duration = (seconds) => (seconds < 90 ? t("seconds", { n: number(Math.ceil(seconds)) }) : t("minutes", { n: number(Math.ceil(seconds / 60)) }));
