// A stored text: formatted or plain, and no more of it at once than a browser shows quickly.
import { html, useState } from "./vendor/vendor.js";
import { markdown } from "./markdown.js";
import { number, t } from "./texts.js";
import { visible } from "./visible.js";

const PART = 64 * 1024; // characters that are shown at once

/**
 * A text: formatted, its first part; plain, one part after the other.
 * @param {{text: string, isRaw: boolean, setRaw, open}} props `open` is called with the URI of a link
 */
export function Stored({ text, isRaw, setRaw, open }) {
  const [chosen, choose] = useState(0);
  const from = isRaw && chosen < text.length ? chosen : 0;
  const part = text.slice(edge(text, from), edge(text, from + PART));
  const all = number(text.length);
  const step = (to, name) => html`<button type="button" class="small" disabled=${to < 0 || to >= text.length} onClick=${() => choose(to)}>${t(name)}</button>`;
  return html`${text.length > PART &&
    html`<div class="note parts" role="status">${isRaw
      ? html`<span>${t("part", { from: number(from + 1), to: number(Math.min(text.length, from + PART)), all })}</span> ${step(from - PART, "before")} ${step(from + PART, "after")}`
      : html`<span>${t("cut", { n: number(PART), all })}</span> <button type="button" class="small" onClick=${() => setRaw(true)}>${t("raw")}</button>`}</div>`}
    ${isRaw ? html`<pre class="text" tabindex="0"><bdi>${visible(part)}</bdi></pre>` : html`<div class="text">${markdown(part, open)}</div>`}`;
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
