// The view of the memories: all of them by kind or by day, or those that a question recalls.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/vendor.js";
import { call } from "./api.js";
import { Ask } from "./ask.js";
import { isEpisode, kindOf, listFiles, readEntries } from "./memory_files.js";
import { editing, forgotten, keyOf, kindName, MemoryRow } from "./memory_row.js";
import { Recalled } from "./recalled.js";
import { Remember } from "./remember.js";
import { go } from "./route.js";
import { day, number, t } from "./texts.js";
import { visible } from "./visible.js";

const FILES = 60; // read at once
const ROWS = 200; // shown at once
const PAUSE = 250; // milliseconds without a key before a filter counts

/** The view. */
export function Memories({ route, changes, open, changed, fail }) {
  const project = useRef(null);
  const own = useRef(0); // the last count of writes that this view made or has seen
  useEffect(() => {
    project.current.value = route.project;
  }, [route.project]);
  const ask = (q) => go({ q, project: project.current.value.trim(), uri: "", lines: "" });
  const wrote = () => {
    own.current += 1;
    changed();
  };
  const drops = (next) => next.mode !== "recall" || next.q !== route.q || next.project !== route.project || next.kind !== route.kind || next.sort !== route.sort;
  const shared = { open, changed: wrote, fail, drops };
  return html`<div class="view memories">
    <${Ask} q=${route.q} ask=${ask} name=${t("recallQuestion")} hint=${t("recallHint")}>
      <input ref=${project} class="project" aria-label=${t("project")} placeholder=${t("project")} title=${t("projectHint")} defaultValue=${route.project} autocomplete="off" />
    <//>
    <${Remember} project=${route.project} open=${open} changed=${changed} fail=${fail} drops=${drops} />
    ${route.q ? html`<${Recalled} route=${route} ...${shared} />` : html`<${All} route=${route} changes=${changes - own.current} ...${shared} />`}
  </div>`;
}

const KINDS = ["profile", "preferences", "instructions", "entities", "tasks", "decisions", "patterns", "cases"];
const LAST = ["journal", "conversation"];
const rank = (kind) => (LAST.includes(kind) ? 100 + LAST.indexOf(kind) : KINDS.includes(kind) ? KINDS.indexOf(kind) : 99);

/** Compare the kinds of memories: what is known of the user first, then other names, and the journal last. */
const inOrderOfKinds = (a, b) => rank(a) - rank(b) || a.localeCompare(b);

const kindIn = (uri) => (isEpisode(uri) ? "conversation" : kindOf(uri));

/** All memories. */
function All({ route, changes, open, changed, fail, drops }) {
  const [uris, setUris] = useState(null);
  const [read, setRead] = useState(new Map()); // the entries of the files that were read
  const [pages, setPages] = useState(1);
  const [typed, setTyped] = useState("");
  const [filter, setFilter] = useState("");
  const isByDay = route.sort === "day";
  const inKind = (uris || []).filter((uri) => !route.kind || kindIn(uri) === route.kind);
  const wanted = [...inKind, ...(uris || []).filter((uri) => !inKind.includes(uri))]; // the others for their numbers
  const missing = wanted.slice(0, FILES * pages).filter((uri) => !read.has(uri));
  const isWhole = inKind.every((uri) => read.has(uri));

  /** Show an entry as it is written in the place of the one before; its row stays. */
  const replace = (before, after) => {
    setRead((all) => {
      const entries = all.get(before.uri) || [];
      const old = entries.find((one) => keyOf(one) === keyOf(before));
      const written = { ...after, row: old?.row || keyOf(before) };
      return new Map([...all, [before.uri, old ? entries.map((one) => (one === old ? written : one)) : [...entries, written]]]);
    });
    setUris((known) => (known.includes(before.uri) ? known : [...known, before.uri]));
  };
  const wrote = (before, after) => {
    if (after) replace(before, after);
    changed();
  };
  const add = (found, of) => setRead((before) => new Map([...before, ...of.map((uri) => [uri, found.filter((one) => one.uri === uri)])]));
  useEffect(() => {
    const abort = new AbortController();
    listFiles(abort.signal)
      .then(async (found) => {
        const again = found.filter((uri) => read.has(uri));
        const entries = await readEntries(again, abort.signal);
        setRead((before) => renewed(before, new Map(again.map((uri) => [uri, entries.filter((one) => one.uri === uri)]))));
        setUris(found);
      })
      .catch(fail);
    return () => abort.abort();
  }, [changes]);
  useEffect(() => {
    if (!missing.length) return undefined;
    const abort = new AbortController();
    readEntries(missing, abort.signal)
      .then((found) => add(found, missing))
      .catch(fail);
    return () => abort.abort();
  }, [missing.join("\n")]);
  useEffect(() => {
    const timer = setTimeout(() => setFilter(typed.trim()), PAUSE);
    return () => clearTimeout(timer);
  }, [typed]);
  useEffect(() => {
    if (!filter || isWhole) return undefined;
    const abort = new AbortController();
    findIn(filter, abort.signal)
      .then((found) => {
        const others = inKind.filter((uri) => found.has(uri) && !read.has(uri));
        return readEntries(others, abort.signal).then((entries) => add(entries, others));
      })
      .catch(fail);
    return () => abort.abort();
  }, [filter, uris, isWhole]);

  const rows = useMemo(() => {
    const stored = [...read.values()].flat();
    const known = new Set(stored.map(keyOf));
    const undoable = [...forgotten.values()].map(({ entry }) => entry).filter((entry) => !known.has(keyOf(entry)));
    const needle = filter.toLowerCase();
    return [...stored, ...undoable].filter(
      (one) => editing.has(keyOf(one)) || ((!route.kind || kindIn(one.uri) === route.kind) && (!needle || one.text.toLowerCase().includes(needle))),
    );
  }, [read, filter, route.kind]);
  const groups = grouped(rows, isByDay, ROWS * pages);
  const shown = groups.reduce((sum, [, members]) => sum + members.length, 0);
  const kinds = [...new Set((uris || []).map(kindIn))].sort(inOrderOfKinds);
  const countIn = (kind) => uris.filter((uri) => !kind || kindIn(uri) === kind).reduce((sum, uri) => sum + (read.get(uri)?.length || 0), 0);
  const isAllRead = uris?.every((uri) => read.has(uri));

  if (!uris) return html`<p class="quiet" aria-busy="true">${t("loading")}</p>`;
  if (!uris.length && !rows.length) return html`<div class="empty"><p>${t("noMemories")}</p></div>`;
  return html`<div class="beside">
    <div class="memory-kinds" role="group" aria-label=${t("kind")}>
      ${["", ...kinds].map((kind) => html`<button key=${kind} type="button" class="chip" aria-pressed=${route.kind === kind} onClick=${() => go({ kind })}>
        <bdi>${kind ? visible(kindName(kind)) : t("allMemories")}</bdi>${isAllRead && html` <span class="quiet">${number(countIn(kind))}</span>`}</button>`)}
    </div>
    <div class="answer">
      <div class="answer-head">
        <input type="search" class="within" aria-label=${t("filterMemories")} placeholder=${t("filterMemories")} value=${typed} onInput=${(event) => setTyped(event.currentTarget.value)} />
        <label class="sort">${t("groupedBy")} <select value=${isByDay ? "day" : ""} onChange=${(event) => go({ sort: event.currentTarget.value })}>
          <option value="">${t("byKind")}</option><option value="day">${t("byDay")}</option>
        </select></label>
      </div>
      <p class="summary quiet" role="status">${missing.length > 0 && !rows.length ? t("loading") : t(rows.length === 1 ? "oneMemory" : "memories.n", { n: number(rows.length) })}${!isWhole && !missing.length && ` · ${t("filesRead", { n: number(inKind.filter((uri) => read.has(uri)).length), all: number(inKind.length) })}`}</p>
      ${groups.map(([name, members]) => html`<section key=${name} class="memory-group">
        <h2>${isByDay ? day(name) || t("noDay") : visible(kindName(name))}</h2>
        <ul class="plain">${members.map((one) => html`<${MemoryRow} key=${one.row || keyOf(one)} memory=${one} about=${isByDay ? kindName(kindIn(one.uri)) : day(one.time)} open=${open} changed=${wrote} fail=${fail} drops=${drops} />`)}</ul>
      </section>`)}
      ${!rows.length && !missing.length && html`<p class="empty">${t("noMemoryFound")}</p>`}
      ${(!isWhole || shown < rows.length) && rows.length > 0 && html`<button type="button" class="more" disabled=${missing.length > 0} onClick=${() => setPages(pages + 1)}>${t(missing.length ? "loading" : "more")}</button>`}
    </div>
  </div>`;
}

/** Return the entries by file as they are read anew. Rows stay rows, and an entry whose text is edited stays. */
function renewed(before, now) {
  for (const [uri, entries] of before) {
    const left = new Map((now.get(uri) || []).map((one) => [keyOf(one), one]));
    for (const one of entries) {
      const same = left.get(keyOf(one));
      if (same) same.row = one.row;
      else if (editing.has(keyOf(one))) left.set(keyOf(one), one);
    }
    if (left.size) now.set(uri, [...left.values()]);
  }
  return now;
}

/** Return the URIs of the memory files with a text. */
async function findIn(text, signal) {
  const found = new Set();
  const request = { pattern: text, literal: true, caseInsensitive: true, contextTypes: ["CONTEXT_TYPE_MEMORY"], pageSize: 10_000 };
  do {
    const page = await call("grep", request, signal);
    (page.matches || []).forEach(({ uri }) => found.add(uri));
    request.pageToken = page.nextPageToken;
  } while (request.pageToken);
  return found;
}

/** Return [name, members] of the first rows: by kind the present ones before earlier ones, each newest first. */
function grouped(rows, isByDay, most) {
  const newest = (a, b) => (a.time === b.time ? a.start - b.start : a.time < b.time ? 1 : -1);
  const groups = new Map();
  const inOrder = isByDay ? [...rows].sort(newest) : [...rows].sort((a, b) => a.isEarlier - b.isEarlier || newest(a, b));
  const nameOf = isByDay ? ({ time }) => localDay(time) : ({ uri }) => kindIn(uri);
  if (!isByDay) for (const kind of [...new Set(rows.map(nameOf))].sort(inOrderOfKinds)) groups.set(kind, []);
  for (const one of inOrder) groups.set(nameOf(one), [...(groups.get(nameOf(one)) || []), one]);
  let left = most;
  return [...groups].map(([name, members]) => [name, members.slice(0, Math.max(0, left), (left -= members.length))]).filter(([, members]) => members.length);
}

/** Return the day of a time in the time zone of the browser, as in 2026-03-01; "" without a time. */
function localDay(time) {
  if (!time) return "";
  const at = new Date(time);
  return new Date(at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 10);
}
