// The parts of a score: as shares of the final score, as a formula and in words.
import { t } from "./texts.js";
import { parentOf } from "./uris.js";
import { spelled } from "./visible.js";

const VISIBLE = 5e-4; // smaller differences do not show in three digits

/** The names of the parts, in the order of their bars. */
export const PARTS = ["dense", "lexical", "rerank", "neighbours", "parent", "title", "date"];
const ADDED = ["feedback", "cover", "agreement", "reply", "date", "kind"]; // the amounts of the second stage
export const SALIENCE = ["semantic", "reinforcement", "recency", "access"];

/**
 * Return the shares of a traced score; they sum to its final score. The amounts of the second stage count as what
 * they come from: the first results as meaning, the words covered as words, the agreement of both as half of each, the file before as neighbours. A lowering
 * by neighbours takes from the own parts, one by the first results from the meaning, one by the kind of a file from all.
 * @param parts ScoreParts in protobuf's JSON form
 */
export function shares(parts) {
  const { dense = 0, lexical = 0, denseWeight: w = 0, nodeScore = 0, smoothed = 0, parent = 0, parentWeight: b = 0, title = 0, rerank } = parts;
  if (rerank !== undefined) return { rerank: (1 - b) * rerank, parent: b * parent };
  const raised = Math.max(0, smoothed - nodeScore);
  const kept = nodeScore > 0 ? Math.min(1, smoothed / nodeScore) : 1;
  const own = w * dense + (1 - w) * lexical;
  const scale = own > 0 ? (nodeScore / own) * kept * (1 - b) : 0;
  const { feedback = 0, cover = 0, agreement = 0, reply = 0, date = 0, kind = 0, final = 0 } = parts;
  const all = {
    dense: Math.max(0, w * dense * scale + feedback + agreement / 2),
    lexical: (1 - w) * lexical * scale + cover + agreement / 2,
    neighbours: raised * (1 - b) + reply,
    parent: b * parent,
    title,
    date,
  };
  const left = kind < 0 ? final / (final - kind) : 1;
  return Object.fromEntries(Object.entries(all).map(([name, share]) => [name, share * left]));
}

const three = (value) => Number(value || 0).toFixed(3);

/** Return the formula of a score, as vikingctl writes it. */
export function formula(parts) {
  const { dense, lexical, denseWeight: w = 0, nodeScore, smoothed, parent, parentWeight: b = 0, title = 0, final, rerank } = parts;
  if (rerank !== undefined) {
    return `${three(final)} = ${(1 - b).toFixed(2)}·rerank ${three(rerank)} + ${b.toFixed(2)}·parent ${three(parent)}`;
  }
  const amounts = [["title", title], ...ADDED.map((name) => [name, parts[name] ?? 0])].filter(([, amount]) => Math.abs(amount) >= VISIBLE);
  const added = amounts.map(([name, amount]) => ` ${amount < 0 ? "-" : "+"} ${name} ${three(Math.abs(amount))}`).join("");
  return (
    `${three(final)} = ${(1 - b).toFixed(2)}·smoothed ${three(smoothed)} + ${b.toFixed(2)}·parent ${three(parent)}${added}; ` +
    `node ${three(nodeScore)} = ${w.toFixed(2)}·dense ${three(dense)} + ${(1 - w).toFixed(2)}·lexical ${three(lexical)}`
  );
}

/** Return one sentence that explains a score; "" without its parts. */
export function reason(parts, uri, identifiers) {
  if (!parts) return "";
  const { dense = 0, lexical = 0, denseWeight: w = 0, nodeScore = 0, smoothed = 0, parent = 0, parentWeight: b = 0, title = 0, final, rerank } = parts;
  const values = { dense: three(dense), lexical: three(lexical), own: three(nodeScore) };
  const clauses = [];
  if (rerank !== undefined) clauses.push(t("because.rerank", { rerank: three(rerank) }));
  else if (identifiers && w === 0) clauses.push(t("because.identifiers", values));
  else if (w === 1 || lexical === 0) clauses.push(t("because.meaning", values));
  else if (w === 0 || dense === 0) clauses.push(t("because.words", values));
  else clauses.push(t("because.both", values));
  if (rerank === undefined && Math.abs(smoothed - nodeScore) >= VISIBLE) {
    clauses.push(t(smoothed > nodeScore ? "because.raised" : "because.lowered", { smoothed: three(smoothed) }));
  }
  const untitled = (1 - b) * smoothed + b * parent;
  if (b > 0 && Math.abs(untitled - smoothed) >= VISIBLE) {
    clauses.push(t("because.parent", { above: spelled(parentOf(uri)), share: `${Math.round(100 * b)}%`, parent: three(parent), sum: three(untitled) }));
  }
  const titled = Math.min(1, untitled + title);
  if (title >= VISIBLE) clauses.push(t("because.title", { title: three(title), final: three(titled) }));
  const shown = ADDED.filter((name) => Math.abs(parts[name] ?? 0) >= VISIBLE);
  for (const name of shown) {
    const total = name === shown.at(-1) ? t("because.sum", { final: three(final) }) : "";
    clauses.push(t(parts[name] < 0 ? "because.takes" : "because.adds", { about: t(`because.${name}`), amount: three(Math.abs(parts[name])), total }));
  }
  return clauses.join(t("because.joint")) + t("because.end");
}
