// The tree of URIs on the left: opened by pages, and only the rows in view are drawn.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/vendor.js";
import { call } from "./api.js";
import { t } from "./texts.js";
import { ancestorsOf, nameOf, ROOT } from "./uris.js";
import { spelled, visible } from "./visible.js";

const ROW = 26; // pixels
const PAGE = 500; // contexts of a page
const AROUND = 10; // rows that are drawn above and below the view

/** The known part of the tree: the children of each opened directory. */
class Known {
  constructor() {
    this.directories = new Map([[ROOT, { children: [], token: "", state: "closed" }]]);
  }

  /** Read the first page of a directory, or the next one; nothing if all is known. */
  read(uri) {
    const known = this.directories.get(uri) || { children: [], token: "", state: "closed" };
    this.directories.set(uri, known);
    if (known.state === "known" && !known.token) return Promise.resolve();
    known.reading ??= this.page(uri, known).finally(() => (known.reading = null));
    return known.reading;
  }

  async page(uri, known) {
    const before = known.state;
    known.state = "reading";
    try {
      const reply = await call("list", { uri, pageSize: PAGE, pageToken: known.token });
      for (const context of reply.contexts || []) {
        known.children.push({ uri: context.uri, isDirectory: Boolean(context.isDirectory) });
      }
      known.token = reply.nextPageToken || "";
      known.state = "known";
    } catch (error) {
      known.state = before;
      throw error;
    }
  }

  forget(uri) {
    this.directories.delete(uri);
  }
}

/** Return the rows of the opened directories, in their order. */
function rowsOf(known, opened) {
  const rows = [];
  const add = (uri, level) => {
    const directory = known.directories.get(uri);
    if (!directory) return;
    directory.children.forEach((child, index) => {
      rows.push({ ...child, level, index, of: directory.children.length, parent: uri });
      if (child.isDirectory && opened.has(child.uri)) add(child.uri, level + 1);
    });
    if (directory.state === "reading") rows.push({ uri: `${uri} reading`, note: t("loading"), level });
    else if (directory.token) rows.push({ uri: `${uri} more`, more: uri, note: t("more"), level });
    else if (!directory.children.length && uri !== ROOT) rows.push({ uri: `${uri} empty`, note: t("emptyDirectory"), level });
  };
  add(ROOT, 1);
  return rows;
}

/**
 * The tree.
 * @param {{uri: string, changes: number, open: (uri: string) => void, fail: (error: Error) => void}} props
 *   `changes` counts the writes of the page: the directory of `uri` is read again after each.
 */
export function Tree({ uri, changes, open, fail }) {
  const known = useMemo(() => new Known(), []);
  const [opened, setOpened] = useState(new Set());
  const [, redraw] = useState(0);
  const [focus, setFocus] = useState("");
  const [view, setView] = useState({ top: 0, height: 600 });
  const box = useRef(null);

  const read = (directory, tell = fail) => {
    const reading = known.read(directory);
    redraw((n) => n + 1);
    return reading.catch(tell).finally(() => redraw((n) => n + 1));
  };
  const reveal = async (target) => {
    const above = ancestorsOf(target);
    for (const directory of above) if (!known.directories.get(directory)?.children.length) await read(directory, () => {});
    setOpened((before) => new Set([...before, ...above.slice(1)]));
  };
  useEffect(() => {
    read(ROOT);
    const measure = () => setView((before) => ({ ...before, height: box.current?.clientHeight || 600 }));
    measure();
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
  useEffect(() => {
    if (uri) reveal(uri);
  }, [uri]);
  useEffect(() => {
    if (!changes) return;
    for (const directory of [...known.directories.keys()]) known.forget(directory);
    (async () => {
      await read(ROOT);
      for (const directory of opened) await read(directory);
    })();
  }, [changes]);

  const toggle = (row) => {
    const next = new Set(opened);
    if (next.has(row.uri)) next.delete(row.uri);
    else {
      next.add(row.uri);
      if (!known.directories.has(row.uri)) read(row.uri);
    }
    setOpened(next);
  };
  const rows = rowsOf(known, opened);
  const choose = (row) => {
    if (row.more) return read(row.more);
    if (row.note) return undefined;
    setFocus(row.uri);
    if (row.isDirectory && !opened.has(row.uri)) toggle(row);
    return open(row.uri);
  };
  // A row that disappears, such as "Loading…", leaves its place and the focus to the row that comes there.
  const place = useRef(0);
  const found = rows.findIndex((row) => row.uri === (focus || uri));
  const at = found >= 0 ? found : Math.max(0, Math.min(rows.length - 1, focus ? place.current : 0));
  if (found >= 0) place.current = at;
  const hadFocus = Boolean(box.current?.querySelector(":focus"));
  const focusRow = () => box.current?.querySelector('[role="treeitem"][tabindex="0"]')?.focus();
  useLayoutEffect(() => {
    if (hadFocus && document.activeElement === document.body) focusRow();
  });
  const move = (index) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, index))];
    if (!row) return;
    setFocus(row.uri);
    const top = rows.indexOf(row) * ROW;
    const list = box.current;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    requestAnimationFrame(focusRow);
  };
  const keys = {
    ArrowDown: () => move(at + 1),
    ArrowUp: () => move(at - 1),
    Home: () => move(0),
    End: () => move(rows.length - 1),
    Enter: () => choose(rows[at]),
    " ": () => choose(rows[at]),
    ArrowRight: () => {
      const row = rows[at];
      if (row?.isDirectory && !opened.has(row.uri)) toggle(row);
      else move(at + 1);
    },
    ArrowLeft: () => {
      const row = rows[at];
      if (row?.isDirectory && opened.has(row.uri)) toggle(row);
      else if (row) move(rows.findIndex((other) => other.uri === row.parent));
    },
  };
  const onKeyDown = (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  };
  const first = Math.max(0, Math.floor(view.top / ROW) - AROUND);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW) + AROUND);
  return html`<div class="tree" ref=${box} role="tree" aria-label=${t("tree")} onKeyDown=${onKeyDown}
      onScroll=${(event) => setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}>
    <div class="tree-space" role="presentation" style=${{ height: `${rows.length * ROW}px` }}>
      ${rows.slice(first, last).map((row, offset) => {
        const index = first + offset;
        const isOpen = opened.has(row.uri);
        return html`<div key=${row.uri} role="treeitem" class=${`tree-row ${row.note ? "is-note" : ""} ${row.uri === uri ? "is-chosen" : ""}`}
            aria-level=${row.level} aria-selected=${row.uri === uri} aria-setsize=${row.of} aria-posinset=${row.note ? undefined : row.index + 1}
            aria-expanded=${row.isDirectory ? isOpen : undefined} tabindex=${index === at ? 0 : -1}
            style=${{ top: `${index * ROW}px`, paddingLeft: `${8 + (row.level - 1) * 14}px` }} onFocus=${() => row.note || setFocus(row.uri)} onClick=${() => choose(row)}>
          ${row.isDirectory
            ? html`<span class="twist" onClick=${(event) => (event.stopPropagation(), setFocus(row.uri), toggle(row))}><svg viewBox="0 0 10 10" class=${isOpen ? "is-open" : ""}><path d="M3 1.5 7 5 3 8.5" /></svg></span>`
            : html`<span class="twist"></span>`}
          <bdi class="tree-name" title=${row.note ? undefined : spelled(row.uri)}>${row.note || visible(nameOf(row.uri))}</bdi>
        </div>`;
      })}
    </div>
  </div>`;
}
