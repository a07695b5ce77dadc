// Markdown as elements. All text goes into text nodes, so that stored text never becomes markup.
import { inlineOf } from "./inline.js";
import { t } from "./texts.js";
import { h } from "./vendor/vendor.js";
import { visible } from "./visible.js";

const BLOCK = /^\s{0,3}(#{1,6})\s+(.*)$|^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$|^\s{0,3}>\s?(.*)$|^\s{0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/s;
// These patterns are for lines without spaces at their ends, and take linear time: the lookahead is never gone back into.
const FENCE = /^(?=(`{3,}|~{3,}))\1([^`]*)$/;
const DEFINITION = /^\s{0,3}\[([^\]]{1,200})\]:\s*<?([^\s<>]{1,2048})>?/;
const SEPARATOR = /^\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?$/;
/** Lines that arrange a text and are none themselves: directives of reStructuredText, Sphinx, VitePress and Hugo. */
const DIRECTIVE = /^(?::::.*|\.\. (?:[\w-]+::.*|_[^:]+:)|:[\w-]+:(?:\s.*)?|\{\{[<%].*[%>]\}\}|\{%.*%\}|\[TOC\]|<a (?:id|name)="[^"]*">\s*(?:<\/a>)?)$/i;
const ASIDE = /^\{?(note|warning|tip|important|caution|danger|hint|seealso|attention|admonition)\}?/i;
const UNSHOWN = /^\{(toctree|contents|include|index|raw)\}/i;
/** The mark of a link to the heading itself. */
const ANCHOR = /\s*(?:\{#[^}]*\}|\[[¶#§]?\]\(#[^)]*\)|¶|\s#+)\s*$/;

const LONGEST_ANCHOR = 200; // characters

/** Return the heading without the mark of its own link. */
export const headingOf = (text) => text.slice(0, -LONGEST_ANCHOR) + text.slice(-LONGEST_ANCHOR).replace(ANCHOR, "").trim();

/** Return the name of a heading in links, as GitHub makes it. */
export const slugOf = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").trim().replace(/\s/g, "-");

/**
 * Return the elements of a Markdown text.
 * @param {string} text
 * @param {{open, mark, title: string, first: number, lines: number[], headings: Array}} options `open` is called with
 *   the target of a link to another context; without it links are texts. `mark` makes a text to children.
 *   A first heading equal to `title` is left out. `lines` are the first and last line of the passage that is marked,
 *   `first` is the number of the first line of `text`. `headings` gets {level, text, id} of each heading.
 */
export function markdown(text, { open, mark = visible, title = "", first = 1, lines: [from, to] = [0, 0], headings = [] } = {}) {
  const blocks = [];
  const front = /^---\r?\n([\s\S]*?)\r?\n---(?:\r?\n|$)/.exec(text);
  let line = first;
  if (front) {
    blocks.push(h("details", { class: "front" }, h("summary", null, t("frontMatter")), h("pre", null, h("code", null, visible(front[1])))));
    line += front[0].split("\n").length - 1;
    text = text.slice(front[0].length);
  }
  const lines = text.split(/\r\n|\r|\n/);
  const links = new Map();
  for (const one of lines) {
    const found = DEFINITION.exec(one);
    if (found) links.set(found[1].toLowerCase(), found[2]);
  }
  const inline = (part) => inlineOf(part, { open, mark, links });
  const slugs = new Map();
  let paragraph = [];
  let list = null;
  let began = 0;
  let unended = 0; // the line from which on a comment may have an end

  const add = (block, begin, end) => {
    if (from && line + begin <= to && line + end >= from) block.props.class = `${block.props.class || ""} is-passage`;
    blocks.push(block);
  };
  const flush = (end) => {
    if (paragraph.length) add(h("p", null, inline(paragraph.join(" "))), began, end - 1);
    if (list) listsOf(list.items, inline).forEach((block) => add(block, began, end - 1));
    paragraph = [];
    list = null;
  };
  const addHeading = (level, content, begin) => {
    const plain = headingOf(content);
    if (!blocks.length && plain === title) return;
    const slug = slugOf(plain);
    const times = slugs.get(slug) || 0;
    slugs.set(slug, times + 1);
    const id = `part-${slug}${times ? `-${times}` : ""}`;
    headings.push({ level, text: plain.replace(/[`*]/g, ""), id });
    add(h(`h${Math.min(6, level + 1)}`, { id, tabindex: -1 }, inline(plain)), begin, begin);
  };
  for (let i = 0; i < lines.length; i++) {
    const one = lines[i];
    const bare = one.trim();
    const fence = FENCE.exec(bare);
    if (fence) {
      flush(i);
      const begin = i;
      const code = [];
      const info = fence[2].trim();
      for (i++; i < lines.length && !lines[i].trim().startsWith(fence[1]); i++) code.push(lines[i]);
      if (UNSHOWN.test(info)) continue;
      if (info.startsWith("{") && ASIDE.test(info)) {
        add(h("blockquote", null, markdown(code.filter((part) => !DIRECTIVE.test(part.trim())).join("\n"), { open, mark })), begin, i);
      } else add(h("pre", { tabindex: 0 }, h("code", null, mark(code.join("\n")))), begin, i);
      continue;
    }
    if (!bare) {
      if (list) list.isLoose = true;
      else flush(i);
      continue;
    }
    if (bare.startsWith("<!--") && i >= unended) {
      let end = i;
      while (end < lines.length && !lines[end].includes("-->")) end += 1;
      if (lines[end]?.trim().endsWith("-->")) {
        flush(i);
        i = end;
        continue;
      }
      unended = end + 1; // those before it have the same end
    }
    if (DIRECTIVE.test(bare) || DEFINITION.test(one)) {
      flush(i);
      continue;
    }
    if (one.includes("|") && lines[i + 1]?.includes("|") && SEPARATOR.test(lines[i + 1].trim())) {
      flush(i);
      const begin = i;
      const rows = [cellsOf(one)];
      for (i += 2; i < lines.length && lines[i].includes("|") && lines[i].trim(); i++) rows.push(cellsOf(lines[i]));
      i -= 1;
      add(tableOf(rows, inline), begin, i);
      continue;
    }
    if (paragraph.length === 1 && /^\s{0,3}(=+|-{2,})\s*$/.test(one)) {
      const [content] = paragraph;
      paragraph = [];
      addHeading(one.includes("=") ? 1 : 2, content, i - 1);
      continue;
    }
    const found = BLOCK.exec(one);
    if (!found) {
      const aside = /^!!!\s+\w+(?:\s+"(.*)")?\s*$/.exec(one);
      if (list && list.isLoose && !/^\s{2,}/.test(one)) flush(i);
      if (aside) {
        flush(i);
        if (aside[1]) add(h("p", null, h("strong", null, mark(aside[1]))), i, i);
      } else if (list) list.items.at(-1).text += ` ${one.trim()}`;
      else {
        if (!paragraph.length) began = i;
        paragraph.push(one);
      }
    } else if (found[1]) {
      flush(i);
      addHeading(found[1].length, found[2], i);
    } else if (found[4]) {
      if (paragraph.length) flush(i);
      if (!list) began = i;
      list ??= { items: [] };
      list.isLoose = false;
      list.items.push({ indent: found[3].replace(/\t/g, "    ").length, number: parseInt(found[4], 10), text: found[5] });
    } else if (found[6] !== undefined) {
      flush(i);
      const begin = i;
      const quoted = [found[6]];
      while (/^\s{0,3}>/.test(lines[i + 1] || "")) quoted.push(lines[++i].replace(/^\s{0,3}>\s?/, ""));
      if (/^\[!\w+\]\s*$/.test(quoted[0])) quoted.shift(); // the mark of a note on GitHub
      add(h("blockquote", null, h("p", null, inline(quoted.join(" ").trim()))), begin, i);
    } else {
      flush(i);
      add(h("hr"), i, i);
    }
  }
  flush(lines.length);
  return blocks;
}

/** Return items as lists within lists, by their indents. */
function listsOf(items, inline) {
  const root = { children: [] };
  const above = [{ indent: -1, node: root }];
  for (const item of items) {
    while (above.at(-1).indent >= item.indent) above.pop();
    const node = { ...item, children: [] };
    above.at(-1).node.children.push(node);
    above.push({ indent: item.indent, node });
  }
  const lists = ({ children }) => {
    const made = [];
    for (let i = 0; i < children.length;) {
      const isOrdered = !Number.isNaN(children[i].number);
      const start = children[i].number;
      const rows = [];
      for (; i < children.length && isOrdered === !Number.isNaN(children[i].number); i++) {
        rows.push(h("li", null, inline(children[i].text), lists(children[i])));
      }
      made.push(isOrdered ? h("ol", { start }, rows) : h("ul", null, rows));
    }
    return made;
  };
  return lists(root);
}

const cellsOf = (line) => line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));

const tableOf = ([head, ...rows], inline) =>
  h("div", { class: "table", tabindex: 0 }, h("table", null,
    h("thead", null, h("tr", null, head.map((cell) => h("th", { scope: "col" }, inline(cell))))),
    h("tbody", null, rows.map((row) => h("tr", null, row.map((cell) => h("td", null, inline(cell))))))));
