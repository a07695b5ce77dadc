// Memory files: their entries, and writes that change one entry and keep all others with their counters.
import { call } from "./api.js";
import { asTyped, lineEndOf } from "./stored.js";

const PLACES = ["user", "agent", "users/*", "projects/*"];
const PAGE = 10_000; // URIs of one call
const PIN = /^(?:📌\uFE0F?\s*)+/u;
const MARK = "📌";
const BLOCK = /^(?:```|~~~|#{1,6}[ \t]|[>|]|[-+*][ \t]|\d{1,9}[.)][ \t])/; // Markdown that must begin its line
const ITEM = /^\s*(?:[-+*]|\d+[.)])\s+$/;
const HAN = /\p{Script=Han}/u;
const AHEAD = 8; // files that are read at once

/** Return the day of a file of the journal, such as 2026-03-01; "" for another file. */
export const dayOf = (uri) => /\/journal\/(\d{4}-\d\d-\d\d)[./]/.exec(uri)?.[1] || "";

/** Tell whether a file is a conversation, turn by turn. */
export const isEpisode = (uri) => /\/journal\/[\d-]{10}\/session-[^/]*$/.test(uri);

/** Return the kind of the memories of a file: the name below memories/ and agent/. */
export function kindOf(uri) {
  const segments = uri.slice("viking://".length).split("/");
  const below = segments.slice(["users", "projects"].includes(segments[0]) ? 3 : 2);
  if (segments[0] === "projects" && below[0] === "agent" && below.length > 1) below.shift();
  const name = (below[0] || "").toLowerCase();
  return below.length === 1 ? name.replace(/(.)\.[^.]*$/, "$1") : name;
}

/** Return the owner of a file: the name of a user or a project; "" for shared memories. */
export const ownerOf = (uri) => /^viking:\/\/(?:users|projects)\/([^/]+)/.exec(uri)?.[1] || "";

/** Return the URIs of all memory files that the caller may read: by kind, then the journal, newest day first. */
export async function listFiles(signal) {
  const found = [];
  for (const place of PLACES) {
    const request = { pattern: `${place}/memories/**/*`, kind: "NODE_KIND_FILE", pageSize: PAGE };
    do {
      const page = await call("glob", request, signal);
      found.push(...(page.entries || []).map(({ uri }) => uri));
      request.pageToken = page.nextPageToken;
    } while (request.pageToken);
  }
  return found.sort((a, b) => (dayOf(a) < dayOf(b) ? 1 : dayOf(a) > dayOf(b) ? -1 : a < b ? -1 : 1)).sort((a, b) => Boolean(dayOf(a)) - Boolean(dayOf(b)));
}

/**
 * Read files.
 * @returns {Promise<Array<object>>} their entries in order; a file that is gone has none
 */
export async function readEntries(uris, signal) {
  const found = new Array(uris.length);
  let next = 0;
  const work = async () => {
    while (next < uris.length) {
      const at = next++;
      found[at] = entriesOf(await read(uris[at], signal));
    }
  };
  await Promise.all(Array.from({ length: AHEAD }, work));
  return found.flat();
}

/** Return a context; null if it is gone, or not for this caller. */
async function read(uri, signal) {
  try {
    return (await call("get", { uri }, signal)).context;
  } catch (error) {
    if (error.status === 404 || error.status === 403) return null;
    throw error;
  }
}

/** Return the entries of a context: {id, uri, text, section, kind, time, createTime, reinforcement, accessCount, ...}. */
export function entriesOf(context) {
  const passages = context?.passages || [];
  if (!passages.length) return [];
  const all = Array.from(context.content);
  const found = [];
  let line = 1;
  let read = 0;
  for (const { start = 0, end, section = "", memory, continues } of passages) {
    if (continues && found.length) {
      found.at(-1).end = end;
      continue;
    }
    for (; read < start; read++) if (all[read] === "\n" || (all[read] === "\r" && all[read + 1] !== "\n")) line += 1;
    const one = { uri: context.uri, kind: kindOf(context.uri), source: context.metadata?.source, section, start, end, line };
    found.push({ ...one, isEarlier: section.split(" > ").includes("Earlier"), ...numbers(memory) });
  }
  for (const one of found) {
    const raw = asTyped(all.slice(one.start, one.end).join(""));
    one.isPinned = PIN.test(raw);
    one.text = dedent(raw.replace(PIN, ""));
    const last = one.line + raw.trimEnd().split("\n").length - 1;
    one.lines = last > one.line ? `${one.line}-${last}` : String(one.line);
  }
  return found.filter(({ id }) => id);
}

const numbers = (memory = {}) => ({
  id: memory.id,
  time: memory.time,
  createTime: memory.createTime,
  reinforcement: Number(memory.reinforcement || 0),
  accessCount: Number(memory.accessCount || 0),
});

/** Return a text without the indentation that all its lines but the first have. */
function dedent(text) {
  const [first, ...rest] = text.split("\n");
  const least = Math.min(...rest.filter((line) => line.trim()).map((line) => line.search(/\S/)));
  return [first, ...rest.map((line) => line.slice(Number.isFinite(least) ? least : 0))].join("\n").trim();
}

/** Return a short name for an entry: the last heading above it; "" if that is the title of its file. */
export const headingOf = ({ section }) => (section.includes(" > ") ? section.split(" > ").at(-1) : "");

/**
 * Write an entry with another text or pin. It keeps its counters and times; its id is new.
 * @returns {Promise<object>} the entry as it is stored now
 * @throws {Failure} REVISION_DIFFERS: the entry has changed since it was shown
 */
export async function rewrite(entry, { text = entry.text, isPinned = entry.isPinned }) {
  const { context } = await call("get", { uri: entry.uri });
  const now = entriesOf(context).find(({ id }) => id === entry.id);
  if (!now || now.text !== entry.text) throw Object.assign(new Error(), { reason: "REVISION_DIFFERS" });
  const { content, passages } = replaced(context, now, text, isPinned);
  await call("put", {
    contexts: [{ uri: entry.uri, content, passages, updateMask: "content,passages", expectedRevision: context.revision }],
  });
  const written = entriesOf((await call("get", { uri: entry.uri })).context);
  return written.find(({ start, uri }) => start === now.start && uri === entry.uri) || now;
}

/** Return the content and the passages of a context with another text of one entry. */
function replaced(context, entry, text, isPinned) {
  const all = Array.from(context.content);
  const end = lineEndOf(context.content) || "\n";
  const lead = all.slice(0, entry.start).join("").split(/\r\n?|\n/).at(-1);
  const indent = ITEM.test(lead) ? lead.replace(/\S/g, " ") : "";
  const typed = asTyped(text).trim();
  const marked = isPinned ? MARK + (BLOCK.test(typed) ? "\n" : " ") + typed : typed;
  const raw = marked.split("\n").map((line, i) => (i && line.trim() ? indent + line : line.trimEnd())).join(end);
  const pieces = [];
  let at = entry.start;
  for (const piece of cut(raw)) {
    const length = Array.from(piece).length;
    pieces.push({ section: entry.section, start: at, end: at + length, ...(pieces.length ? { continues: true } : { memory: stateOf(entry) }) });
    at += length;
  }
  const grown = at - entry.end;
  const others = (context.passages || []).filter(({ start = 0 }) => start < entry.start || start >= entry.end);
  const moved = others.map(({ start = 0, ...one }) => (start < entry.start ? { ...one, start } : { ...one, start: start + grown, end: one.end + grown }));
  return {
    content: [...all.slice(0, entry.start), raw, ...all.slice(entry.end)].join(""),
    passages: [...moved, ...pieces].sort((a, b) => a.start - b.start),
  };
}

const stateOf = ({ reinforcement, accessCount, time, createTime }) => ({ reinforcement, accessCount, time, createTime });

/** Return a text in pieces of about 320 tokens, as the daemon cuts one. */
function cut(text) {
  const most = HAN.test(text) ? 300 : 1200;
  return text.match(new RegExp(`[^]{1,${most}}(?:\\s+|$)|[^]{1,${most}}`, "gu")) || [text];
}

/**
 * Forget an entry.
 * @returns {Promise<object>} what `restore` takes
 */
export async function forget(entry) {
  const before = (await call("get", { uri: entry.uri })).context;
  await call("forget", { ids: [entry.id] });
  let after;
  try {
    after = await read(entry.uri);
  } catch {
    return { entry, before, after: null, isAlone: false }; // it is forgotten all the same, and restore needs no more
  }
  const idsOf = (context) => entriesOf(context).map(({ id, text }) => `${id} ${text}`).join("\n");
  const left = { ...before, passages: before.passages.filter((_, i) => !isOf(before.passages, i, entry.id)) };
  return { entry, before, after, isAlone: idsOf(left) === idsOf(after) };
}

/** Return the entries of a file after a write to it that holds; none if they cannot be read. */
const readAfter = (uri) => readEntries([uri]).catch(() => []);

/** Tell whether a passage is one of an entry. */
function isOf(passages, at, id) {
  while (at && passages[at].continues) at -= 1;
  return passages[at].memory?.id === id;
}

/**
 * Write a forgotten entry again: its file as it was, with its counters and times; a file that went with it, too.
 * If others have written the file meanwhile, it becomes the last entry below its heading, with its time and pin.
 * Once it is written the call does not fail: a second one would write it twice.
 * @returns {Promise<{entry: object, how: string, unlinked: string[]}>} `how` names the text that says what is as before
 *   and what is new, `unlinked` are the contexts to which no link could be made again
 */
export async function restore({ entry, before, after, isAlone }) {
  const passages = before.passages.map(({ memory, ...one }, i) => (isOf(before.passages, i, entry.id) && memory ? { ...one, memory: stateOf(numbers(memory)) } : one));
  const write = { uri: entry.uri, content: before.content, passages, updateMask: "content,passages", expectedRevision: after?.revision };
  const byHand = (name) => (before[`${name}By`] === "hand" ? before[name] : undefined);
  const whole = { ...write, updateMask: undefined, expectedRevision: "0", title: before.title, metadata: before.metadata, time: before.time, abstract: byHand("abstract"), overview: byHand("overview") };
  try {
    if (!isAlone) throw Object.assign(new Error(), { reason: "REVISION_DIFFERS" });
    await call("put", { contexts: [after ? write : whole] });
  } catch (error) {
    if (error.reason !== "REVISION_DIFFERS") throw error;
    const { id } = await call("remember", { uri: entry.uri, text: entry.text, section: headingOf(entry), time: entry.time, pinned: entry.isPinned, exact: true });
    const now = (await readAfter(entry.uri)).find((one) => one.id === id);
    return { entry: now || { ...entry, id }, how: now ? "restoredApart" : "restoredUnread", unlinked: [] };
  }
  const unlinked = [];
  for (const { uri, reason } of after ? [] : before.relations || []) {
    await call("link", { uri: entry.uri, otherUri: uri, reason }).catch(() => unlinked.push(uri));
  }
  const now = (await readAfter(entry.uri)).find(({ start }) => start === entry.start);
  return { entry: now || entry, how: !now ? "restoredUnread" : after ? "restored" : "restoredWithFile", unlinked };
}
