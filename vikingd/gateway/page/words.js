// The words of a question, marked where a text has them.
import { h } from "./vendor/vendor.js";
import { visible } from "./visible.js";

const HAN = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;
const LONGEST_ENDING = 4; // letters of a word behind its stem

/** Return the pattern of one term, which the index has as a stem. */
function patternOf(term) {
  const plain = term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  if (HAN.test(term)) return plain;
  const stem = term.length > 3 ? plain.replace(/i$/, "[iy]") : plain;
  const ending = term.length > 2 && !/\d/.test(term) ? `[\\p{L}]{0,${LONGEST_ENDING}}` : "";
  return `(?<![\\p{L}\\p{N}])${stem}${ending}(?![\\p{L}\\p{N}])`;
}

/**
 * Return a function that gives a text as children of an element, with the terms marked.
 * @param {string[]} terms of a FindTrace
 */
export function markerOf(terms) {
  const patterns = [...new Set(terms)].filter(Boolean).sort((a, b) => b.length - a.length).map(patternOf);
  if (!patterns.length) return visible;
  const any = new RegExp(`(${patterns.join("|")})`, "giu");
  return (text) => String(text).split(any).map((part, index) => (index % 2 ? h("mark", null, visible(part)) : visible(part)));
}
