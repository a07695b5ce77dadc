// The marks within a line of Markdown: code, bold and slanted text, links and images.
import { h } from "./vendor/vendor.js";
import { spelled } from "./visible.js";

const MARK = /`+|\*\*|\*|(?<![\p{L}\p{N}_])_(?=[^\s_])|!?\[/gu;
const LONGEST_TARGET = 2048; // characters of a link's target
const ROLE = /(?:\{[\w:.+-]{1,40}\}|:[\w:.+-]{1,40}:)`([^`]{1,500})`/g; // of Sphinx, such as {ref}`name <target>`
const ESCAPED = /\\([\\`*_{}[\]()#+.!|<>~-])/g;
const TAGS = { "**": "strong", "*": "em", _: "em" };

/**
 * Return the children of an element. One walk over the marks: each end is searched once, so the time is linear
 * also where no mark has an end.
 * @param {string} text
 * @param {{open, mark, links: Map<string, string>}} options as in markdown; `links` are the targets by name
 */
export function inlineOf(text, { open, mark, links }) {
  text = text.replace(ROLE, (_, name) => `\`${name.replace(/\s*<[^<>]*>$/, "")}\``);
  const plain = (part) => mark(part.replace(ESCAPED, "$1").replace(/<br\s*\/?>/gi, " "));
  const parts = [];
  const next = searcher(text.replace(/\s/g, " "));
  let at = 0;
  let refused = -1; // the end of a text in brackets that is no link
  for (const { 0: sign, index } of text.matchAll(MARK)) {
    const begin = index + sign.length;
    if (index < at || (index > 0 && text[index - 1] === "\\")) continue;
    let end;
    let part;
    if (sign.endsWith("[")) {
      const close = next("]", begin);
      if (close === begin || close === refused || !"([".includes(text[close + 1] || " ")) continue;
      refused = close;
      const isNamed = text[close + 1] === "[";
      end = next(isNamed ? "]" : ")", close + 2);
      if (end - close > LONGEST_TARGET || (!isNamed && end === close + 2)) continue;
      const content = text.slice(begin, close);
      const target = isNamed
        ? links.get((text.slice(close + 2, end) || content).toLowerCase())
        : text.slice(close + 2, end).replace(/\s+"[^"]*"\s*$/, "").replace(/^<(.*)>$/, "$1");
      if (!target || /\s/.test(target)) continue;
      part = sign[0] === "!" ? h("span", { class: "image" }, mark(content)) : link(content, target, open, mark);
    } else {
      if (sign[0] !== "`" && /\s/.test(text[begin] || " ")) continue;
      end = next(sign, begin + 1);
      if (end === Infinity) continue;
      if (sign === "*" && text[end + 1] === "*") continue;
      if (sign === "_" && /[\p{L}\p{N}_]/u.test(text[end + 1] || " ")) continue;
      const content = text.slice(begin, end);
      part = sign[0] === "`" ? h("code", null, mark(content)) : h(TAGS[sign], null, inlineOf(content, { open, mark, links }));
      end += sign.length - 1;
    }
    if (index > at) parts.push(plain(text.slice(at, index)));
    parts.push(part);
    at = end + 1;
  }
  parts.push(plain(text.slice(at)));
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

function link(text, to, open, mark) {
  const shown = mark(text.replace(/[`*]/g, "") || to);
  if (/^https?:\/\//i.test(to)) {
    return open ? h("a", { href: to, target: "_blank", rel: "noopener noreferrer" }, shown) : h("span", null, shown);
  }
  const isOther = /^[a-z][a-z0-9+.-]*:/i.test(to) && !to.startsWith("viking://");
  if (isOther) return mark(`${text} (${to})`); // another scheme is not followed
  return open ? h("button", { class: "link", type: "button", title: spelled(to), onClick: () => open(to) }, shown) : h("span", null, shown);
}
