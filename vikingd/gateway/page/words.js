// The words of a question, marked where a text has them.
import { h } from "./vendor/vendor.js";
import { visible } from "./visible.js";

const HAN = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;
const LONGEST_ENDING = 4; // letters of a word behind its stem
const CODE = 3; // the weight of a term with a digit, beside a word

/** Return the pattern of one term, which the index has as a stem. */
function patternOf(term) {
  const plain = term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  if (HAN.test(term)) return plain;
  const stem = term.length > 3 ? plain.replace(/i$/, "[iy]") : plain;
  const ending = term.length > 2 && !/\d/.test(term) ? `[\\p{L}]{0,${LONGEST_ENDING}}` : "";
  return `(?<![\\p{L}\\p{N}])${stem}${ending}(?![\\p{L}\\p{N}])`;
}

/** The terms of a question, as in FindTrace. */
export class Terms {
  constructor(terms) {
    const sources = [...new Set(terms)].filter(Boolean).sort((a, b) => b.length - a.length).map((term) => [patternOf(term), /\d/.test(term) ? CODE : 1]);
    this.weighed = sources.map(([source, weight]) => [new RegExp(source, "iu"), weight]);
    this.any = sources.length ? new RegExp(`(${sources.map(([source]) => source).join("|")})`, "giu") : null;
    this.mark = this.mark.bind(this);
  }

  /** Return a text as children of an element, with the terms marked. */
  mark(text) {
    if (!this.any) return visible(text);
    return String(text).split(this.any).map((part, index) => (index % 2 ? h("mark", null, visible(part)) : visible(part)));
  }

  /**
   * Return the part of a passage that has most of the terms, from the beginning of a line on. A row of a table
   * has the head of its table.
   * @param {string} text
   * @param {number} most characters
   */
  excerpt(text, most) {
    const cut = (part) => (part.length > most ? `${part.slice(0, most)}…` : part);
    const lines = text.split("\n");
    const weights = lines.map((line) => this.weighed.reduce((sum, [pattern, weight]) => sum + (pattern.test(line) ? weight : 0), 0));
    const best = weights.indexOf(Math.max(...weights));
    if (lines.slice(0, best).join("\n").length < most / 3) return cut(text);
    let head = best;
    while (head > 0 && lines[head].includes("|") && lines[head - 1].includes("|")) head -= 1;
    const table = best - head > 1 ? `${lines[head]}\n${lines[head + 1]}\n` : "";
    return cut(table + lines.slice(best).join("\n"));
  }
}
