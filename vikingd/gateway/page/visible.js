// Characters that do not show, or that turn the direction of a text: written as their codes.
import { HIDDEN } from "./hidden.js";
import { h } from "./vendor/vendor.js";
import { t } from "./texts.js";

const UNSEEN = new RegExp(`((?:${HIDDEN.source})+)`, "u");
const EACH = new RegExp(UNSEEN.source, "gu");
const MOST = 500; // marked codes of one text; more would make the page slow

const codes = (characters) =>
  Array.from(characters, (one) => `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`).join(" ");

/** Return a text as children of an element: unseen characters are marked codes, such as U+202E; many are codes in brackets. */
export function visible(text) {
  const parts = String(text ?? "").split(UNSEEN);
  if (parts.length === 1) return parts[0];
  if (parts.length > 2 * MOST) return spelled(text);
  return parts.map((part, index) => (index % 2 ? h("span", { class: "unseen", title: t("unseen") }, codes(part)) : part));
}

/** Return a text for an attribute or a sentence: unseen characters are codes in brackets. */
export const spelled = (text) => String(text ?? "").replace(EACH, (found) => `[${codes(found)}]`);
