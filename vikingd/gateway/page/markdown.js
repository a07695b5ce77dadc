// Markdown as elements. All text goes into text nodes, so that stored text never becomes markup.
import { h } from "./vendor/vendor.js";
import { visible } from "./visible.js";

const BLOCK = /^(#{1,6})\s+(.*)$|^(```|~~~)[^`]*$|^\s*([-*+]|\d+[.)])\s+(.*)$|^>\s?(.*)$|^(?:---+|\*\*\*+)\s*$/s;
const MARK = /`+|\*\*|\[/g;
const LONGEST_TARGET = 2048; // characters of a link's target

/**
 * Return the elements of a Markdown text.
 * @param {string} text
 * @param {(uri: string) => void} open called with the URI of a link into the tree
 */
export function markdown(text, open) {
  const blocks = [];
  const front = /^---\r?\n([\s\S]*?)\r?\n---(?:\r?\n|$)/.exec(text);
  if (front) {
    blocks.push(h("pre", null, h("code", null, visible(front[1]))));
    text = text.slice(front[0].length);
  }
  const lines = text.split(/\r\n|\r|\n/);
  let paragraph = [];
  let list = null;
  const flush = () => {
    if (paragraph.length) blocks.push(h("p", null, inline(paragraph.join(" "), open)));
    if (list) blocks.push(h(list.ordered ? "ol" : "ul", null, list.items.map((item) => h("li", null, inline(item, open)))));
    paragraph = [];
    list = null;
  };
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    const found = BLOCK.exec(line);
    if (!line.trim()) flush();
    else if (!found) {
      if (list) list.items[list.items.length - 1] += ` ${line.trim()}`;
      else paragraph.push(line);
    } else if (found[1]) {
      flush();
      blocks.push(h(`h${Math.min(6, found[1].length + 1)}`, null, inline(found[2], open)));
    } else if (found[3]) {
      flush();
      const code = [];
      for (i++; i < lines.length && !lines[i].startsWith(found[3]); i++) code.push(lines[i]);
      blocks.push(h("pre", null, h("code", null, visible(code.join("\n")))));
    } else if (found[4]) {
      const ordered = /\d/.test(found[4]);
      if (paragraph.length || (list && list.ordered !== ordered)) flush();
      list ??= { ordered, items: [] };
      list.items.push(found[5]);
    } else if (found[6] !== undefined) {
      flush();
      blocks.push(h("blockquote", null, inline(found[6], open)));
    } else {
      flush();
      blocks.push(h("hr"));
    }
  }
  flush();
  return blocks;
}

// One walk over the marks: each end is searched once, so the time is linear also where no mark has an end.
function inline(text, open) {
  const parts = [];
  const next = searcher(text.replace(/\s/g, " "));
  let at = 0;
  let refused = -1; // the end of a text in brackets that is no link
  for (const { 0: mark, index } of text.matchAll(MARK)) {
    const begin = index + mark.length;
    if (index < at) continue;
    let end;
    let part;
    if (mark === "[") {
      const close = next("]", begin);
      if (close === begin || close === refused || text[close + 1] !== "(") continue;
      refused = close;
      end = next(")", close + 2);
      if (end === close + 2 || end - close > LONGEST_TARGET || next(" ", close + 2) < end) continue;
      part = link(text.slice(begin, close), text.slice(close + 2, end), open);
    } else {
      end = next(mark, begin + 1);
      if (end === Infinity) continue;
      part = h(mark === "**" ? "strong" : "code", null, visible(text.slice(begin, end)));
      end += mark.length - 1;
    }
    if (index > at) parts.push(visible(text.slice(at, index)));
    parts.push(part);
    at = end + 1;
  }
  parts.push(visible(text.slice(at)));
  return parts;
}

/** Return a function that finds a string from a place on. The places for one string must not go back. */
function searcher(text) {
  const found = new Map();
  return (string, from) => {
    let at = found.get(string) ?? -1;
    if (at < from) {
      at = text.indexOf(string, from);
      if (at < 0) at = Infinity;
      found.set(string, at);
    }
    return at;
  };
}

function link(text, to, open) {
  if (to.startsWith("viking://")) {
    return h("button", { class: "link", type: "button", onClick: () => open(to) }, visible(text));
  }
  if (/^https?:\/\//i.test(to)) {
    return h("a", { href: to, target: "_blank", rel: "noopener noreferrer" }, visible(text));
  }
  return visible(`${text} (${to})`); // another scheme is not followed
}
