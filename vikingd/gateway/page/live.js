// The live figures of the daemon: asked while the page is visible.
import { html, useEffect, useState } from "./vendor/vendor.js";
import { call } from "./api.js";
import { number, t } from "./texts.js";

const EVERY = 5000; // milliseconds

/** The figures. `changes` asks at once after a write of the page. */
export function Live({ changes }) {
  const [stats, setStats] = useState(null);
  useEffect(() => {
    let timer;
    const ask = async () => {
      clearTimeout(timer);
      if (document.hidden) return;
      try {
        setStats(await call("stats"));
      } catch {
        setStats(null); // a key may not ask for them
      }
      timer = setTimeout(ask, EVERY);
    };
    ask();
    document.addEventListener("visibilitychange", ask);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", ask);
    };
  }, [changes]);
  if (!stats) return null;
  const backlog = Number(stats.embedder?.backlog || 0);
  const queues = stats.queues || [];
  const waiting = queues.reduce((sum, queue) => sum + Number(queue.waiting || 0), 0);
  const refused = queues.reduce((sum, queue) => sum + Number(queue.refused || 0), 0);
  return html`<ul class="live quiet" aria-label="vikingd ${stats.version}">
    <li>${t("revision")} ${number(stats.revision)}</li>
    <li>${t("files", { n: number(stats.files) })}</li>
    <li>${t("texts", { n: number(stats.texts) })}</li>
    <li class=${backlog ? "is-busy" : ""}>${backlog ? t("backlog", { n: number(backlog) }) : t("allEmbedded")}</li>
    ${waiting > 0 && html`<li class="is-busy">${t("waiting", { n: number(waiting) })}</li>`}
    ${refused > 0 && html`<li class="is-busy">${t("refused", { n: number(refused) })}</li>`}
    ${stats.problem && html`<li class="is-busy">${stats.problem}</li>`}
  </ul>`;
}
