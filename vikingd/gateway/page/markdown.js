// Markdown as elements. All text goes into text nodes, so that stored text never becomes markup.
import { h } from "./vendor/vendor.js";

const BLOCK = /^(#{1,6})\s+(.*)$|^(```|~~~)\s*(\S*)\s*$|^\s*([-*+]|\d+[.)])\s+(.*)$|^>\s?(.*)$|^(?:---+|\*\*\*+)\s*$/;
const INLINE = /(`+)(.+?)\1|\*\*(.+?)\*\*|\[([^\]]+)\]\(([^)\s]+)\)/;

/**
 * Return the elements of a Markdown text.
 * @param {string} text
 * @param {(uri: string) => void} open called with the URI of a link into the tree
 */
export function markdown(text, open) {
  const blocks = [];
  const front = /^---\r?\n([\s\S]*?)\r?\n---(?:\r?\n|$)/.exec(text);
  if (front) {
    blocks.push(h("pre", null, h("code", null, front[1])));
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
      blocks.push(h("pre", null, h("code", null, code.join("\n"))));
    } else if (found[5]) {
      const ordered = /\d/.test(found[5]);
      if (paragraph.length || (list && list.ordered !== ordered)) flush();
      list ??= { ordered, items: [] };
      list.items.push(found[6]);
    } else if (found[7] !== undefined) {
      flush();
      blocks.push(h("blockquote", null, inline(found[7], open)));
    } else {
      flush();
      blocks.push(h("hr"));
    }
  }
  flush();
  return blocks;
}

function inline(text, open) {
  const parts = [];
  for (let rest = text; rest; ) {
    const found = INLINE.exec(rest);
    if (!found) {
      parts.push(rest);
      break;
    }
    parts.push(rest.slice(0, found.index));
    if (found[2] !== undefined) parts.push(h("code", null, found[2]));
    else if (found[3] !== undefined) parts.push(h("strong", null, found[3]));
    else parts.push(link(found[4], found[5], open));
    rest = rest.slice(found.index + found[0].length);
  }
  return parts;
}

function link(text, to, open) {
  if (to.startsWith("viking://")) {
    return h("button", { class: "link", type: "button", onClick: () => open(to) }, text);
  }
  if (/^https?:\/\//i.test(to)) {
    return h("a", { href: to, target: "_blank", rel: "noopener noreferrer" }, text);
  }
  return `${text} (${to})`; // another scheme is not followed
}
