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

/** The terms of a question, as in FindTrace. */
export class Terms {
  constructor(terms) {
    this.patterns = [...new Set(terms)].filter(Boolean).sort((a, b) => b.length - a.length).map((term) => new RegExp(patternOf(term), "iu"));
    this.any = this.patterns.length ? new RegExp(`(${this.patterns.map(({ source }) => source).join("|")})`, "giu") : null;
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
    const counts = lines.map((line) => this.patterns.filter((pattern) => pattern.test(line)).length);
    const best = counts.indexOf(Math.max(...counts));
    if (lines.slice(0, best + 1).join("\n").length < most / 2) return cut(text);
    let head = best;
    while (head > 0 && lines[head].includes("|") && lines[head - 1].includes("|")) head -= 1;
    const table = best - head > 1 ? `${lines[head]}\n${lines[head + 1]}\n` : "";
    return cut(table + lines.slice(best).join("\n"));
  }
}
