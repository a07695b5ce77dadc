// A stored text: formatted or plain, and no more of it at once than a browser shows quickly.
import { html, useEffect, useMemo, useState } from "./vendor/vendor.js";
import { markdown } from "./markdown.js";
import { current, number, t } from "./texts.js";
import { visible } from "./visible.js";

const PART = 64 * 1024; // characters that are shown at once

/**
 * A text: formatted, its first part or the one of the passage; plain, one part after the other.
 * @param {{text: string, isRaw: boolean, setRaw, open, title: string, lines: string, setHeadings}} props `open` is called
 *   with the target of a link; a first heading equal to `title` is left out; `lines` are those of a passage, such as
 *   "7-13"; `setHeadings` gets the headings that are shown
 */
export function Stored({ text, isRaw, setRaw, open, title = "", lines = "", setHeadings }) {
  const [chosen, choose] = useState(0);
  const marked = lines.split("-").map(Number);
  const passage = marked[0] ? startOfLine(text, marked[0]) : 0;
  const start = passage >= PART ? passage : 0;
  const from = isRaw ? (chosen < text.length ? chosen : 0) : start;
  const part = text.slice(edge(text, from), edge(text, from + PART));
  const all = number(text.length);
  const [shown, headings] = useMemo(() => {
    if (isRaw) return [null, []];
    const found = [];
    const first = from ? marked[0] : 1;
    return [markdown(part, { open, title, first, lines: marked[0] ? [marked[0], marked[1] || marked[0]] : [0, 0], headings: found }), found];
  }, [text, isRaw, lines, current()]);
  useEffect(() => setHeadings?.(headings), [headings]);
  const step = (to, name) => html`<button type="button" class="small" disabled=${to < 0 || to >= text.length} onClick=${() => choose(to)}>${t(name)}</button>`;
  const range = () => t("part", { from: number(from + 1), to: number(Math.min(text.length, from + PART)), all });
  return html`${text.length > PART &&
    html`<div class="note parts" role="status">${isRaw
      ? html`<span>${range()}</span> ${step(from - PART, "before")} ${step(from + PART, "after")}`
      : html`<span>${from ? range() : t("cut", { n: number(PART), all })}</span> <button type="button" class="small" onClick=${() => setRaw(true)}>${t("raw")}</button>`}</div>`}
    ${isRaw ? html`<pre class="text" tabindex="0"><bdi>${visible(part)}</bdi></pre>` : html`<div class="text">${shown}</div>`}`;
}

/** Return the place of a line, from 1. */
function startOfLine(text, line) {
  let at = 0;
  for (let n = 1; n < line; n++) {
    const end = text.indexOf("\n", at);
    if (end < 0) return at;
    at = end + 1;
  }
  return at;
}

/** Return a place that does not part the two halves of a character. */
const edge = (text, at) => (at < text.length && (text.charCodeAt(at) & 0xfc00) === 0xdc00 ? at - 1 : at);

/** Return the line end of a text: "\n", "\r\n" or "\r"; "" if it has several kinds. */
export function lineEndOf(text) {
  const kinds = [/\r\n/.test(text) && "\r\n", /\r(?!\n)/.test(text) && "\r", /(?<!\r)\n/.test(text) && "\n"].filter(Boolean);
  return kinds.length > 1 ? "" : kinds[0] || "\n";
}

/** Return a text with "\n" as its line end, as a text box has it. */
export const asTyped = (text) => text.replace(/\r\n?/g, "\n");
