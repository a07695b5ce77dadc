// Characters that do not show, or that turn the direction of a text: written as their codes.
import { h } from "./vendor/vendor.js";
import { t } from "./texts.js";

// Controls but tab and line ends; marks, embeddings and isolates of direction; separators; zero widths.
const UNSEEN = /([\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]+)/;
const EACH = new RegExp(UNSEEN.source, "g");
const MOST = 500; // marked codes of one text; more would make the page slow

const codes = (characters) =>
  Array.from(characters, (one) => `U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`).join(" ");

/** Return a text as children of an element: unseen characters are marked codes, such as U+202E; many are codes in brackets. */
export function visible(text) {
  const parts = String(text ?? "").split(UNSEEN);
  if (parts.length === 1) return parts[0];
  if (parts.length > 2 * MOST) return spelled(text);
  return parts.map((part, index) => (index % 2 ? h("span", { class: "unseen", title: t("unseen") }, codes(part)) : part));
}

/** Return a text for an attribute or a sentence: unseen characters are codes in brackets. */
export const spelled = (text) => String(text ?? "").replace(EACH, (found) => `[${codes(found)}]`);
