// The view of the search: the question, the filters beside its results, and the first run of an empty store.
import { html } from "./vendor/vendor.js";
import { useAnswer } from "./answers.js";
import { Ask } from "./ask.js";
import { rememberQuestion } from "./asked.js";
import { useDetails } from "./details.js";
import { Filters, wanted } from "./filters.js";
import { matchesOf, Results } from "./results.js";
import { go } from "./route.js";
import { t } from "./texts.js";
import { Welcome } from "./welcome.js";

export const STEP = 20; // results of a first answer, and those that are added by "more"
const MOST = { find: 1000, search: 100 }; // results of an answer, see FindRequest.limit

/** Return the request of a route; null without a question. */
function requestOf(route) {
  if (!route.q) return null;
  const where = wanted(route);
  const types = route.types.split(",").filter(Boolean);
  return {
    query: route.q,
    targetUri: route.target || undefined,
    contextTypes: types.length ? types.map((name) => `CONTEXT_TYPE_${name.toUpperCase()}`) : undefined,
    where: Object.keys(where).length ? where : undefined,
    limit: Math.min(Number(route.count) || STEP, MOST[route.mode] || MOST.find),
    trace: true,
  };
}

/** The view. */
export function Search({ route, changes, open, changed, fail }) {
  const rpc = route.mode === "search" ? "search" : "find";
  const { answer, isBusy } = useAnswer(rpc, requestOf(route), fail);
  const matches = answer ? matchesOf(answer.reply) : [];
  const details = useDetails(matches, answer?.reply.revision);
  const ask = (q) => {
    rememberQuestion(q);
    go({ mode: rpc, q, why: "", count: "", ...(matchMedia("(max-width: 60rem)").matches ? { uri: "", lines: "" } : {}) });
  };
  return html`<div class="view search" aria-busy=${isBusy}>
    <${Ask} q=${route.q} ask=${ask}>
      <select aria-label=${t("mode")} value=${rpc} onChange=${(event) => go({ mode: event.currentTarget.value, why: "" })}>
        <option value="find">${t("find")}</option>
        <option value="search">${t("searchMode")}</option>
      </select>
    <//>
    ${answer
      ? html`<div class="beside">
          <${Filters} route=${route} matches=${matches} details=${details} ask=${ask} />
          <${Results} route=${route} reply=${answer.reply} taken=${answer.taken} limit=${answer.request.limit} most=${MOST[rpc]} details=${details} open=${open} />
        </div>`
      : !route.q && html`<${Welcome} changes=${changes} changed=${changed} open=${open} fail=${fail} ask=${ask} />`}
  </div>`;
}
