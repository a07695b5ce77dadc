// The history of a memory: the values that it had, and the messages that say it.
import { html } from "./vendor/vendor.js";
import { dayOf, isEpisode, ownerOf } from "./memory_files.js";
import { day, t } from "./texts.js";
import { spelled, visible } from "./visible.js";

const NOTE = /^([^]*) \(Before: ([^]*)\)$|^([^]*)（之前：([^]*)）$/;
const ENDED = /^([^]*) \(Ended: "([^]*)"\)$|^([^]*)（已结束：“([^]*)”）$/;
const DAY = 24 * 3600 * 1000; // milliseconds

const sameText = (noted, text) => (noted.endsWith("…") ? text.startsWith(noted.slice(0, -1)) : noted === text);

/** Return the two wordings of a note on a change: [now, before]; null for another text. */
function noted(text) {
  const found = NOTE.exec(text);
  return found && [found[1] ?? found[3], found[2] ?? found[4]];
}

/** Return what an entry says, and the sentence that ended it: [text, sentence]. */
export function ended(text) {
  const found = ENDED.exec(text);
  return found ? [found[1] ?? found[3], found[2] ?? found[4]] : [text, ""];
}

/**
 * Return the values of a memory in time, the oldest first; the journal has a note on each change.
 * @param {object} entry
 * @param {Array<object>} entries all that are known: of its file and of the journal
 * @returns {Array<{text: string, time: string, until: string, why: string}>} `until` is "" for what holds now, `why` is
 *   the sentence that ended it
 */
export function valuesOf(entry, entries) {
  const own = entries.filter(({ uri, kind }) => kind === entry.kind && ownerOf(uri) === ownerOf(entry.uri));
  const notes = entries
    .filter(({ uri }) => dayOf(uri) && !isEpisode(uri) && ownerOf(uri) === ownerOf(entry.uri))
    .map(({ text, time }) => ({ pair: noted(text), time }))
    .filter(({ pair }) => pair)
    .sort((a, b) => (a.time < b.time ? -1 : 1));
  const values = [{ text: ended(entry.text)[0], time: entry.time || "" }];
  for (;;) {
    const last = values.at(-1);
    const note = notes.find(({ pair, time }) => sameText(pair[1], last.text) && time > last.time);
    if (!note) break;
    values.push({ text: note.pair[0], time: note.time });
  }
  for (;;) {
    const [first] = values;
    const note = notes.findLast(({ pair, time }) => sameText(pair[0], first.text) && time <= first.time);
    if (!note) break;
    const before = own.filter(({ text, time }) => sameText(note.pair[1], ended(text)[0]) && time < note.time).sort((a, b) => (a.time < b.time ? 1 : -1))[0];
    first.time = note.time;
    values.unshift({ text: before ? ended(before.text)[0] : note.pair[1], time: before?.time || "" });
    if (!before) break;
  }
  const stored = own.find(({ text }) => ended(text)[1] && ended(text)[0] === values.at(-1).text);
  const end = stored && entries.find(({ uri, text }) => dayOf(uri) && text === stored.text);
  values.forEach((value, i) => (value.until = values[i + 1]?.time || ""));
  Object.assign(values.at(-1), { why: stored ? ended(stored.text)[1] : "", until: end?.time || "" });
  return values;
}

/** Return the files of the journal for the days of entries; their days are those of the speakers' time zones. */
export function journalOf(entries, uris) {
  const times = entries.map(({ time }) => new Date(time || 0).getTime());
  const days = new Set(times.flatMap((at) => [-1, 0, 1].map((n) => new Date(at + n * DAY).toISOString().slice(0, 10))));
  return uris.filter((uri) => days.has(dayOf(uri)));
}

/** Return the turns of conversations that were said at the time of an entry. */
export const turnsOf = (entry, entries) => entries.filter(({ uri, time }) => isEpisode(uri) && time === entry.time);

/** Return the beginning that all texts have; it ends with a word. */
function common(texts) {
  const [first] = texts;
  let n = 0;
  while (n < first.length && texts.every((text) => text[n] === first[n])) n += 1;
  while (n && /[\p{L}\p{N}]/u.test(first[n - 1]) && !/\p{Script=Han}/u.test(first[n - 1])) n -= 1;
  return texts.every((text) => text.length > n) ? first.slice(0, n) : "";
}

/** The values as a line in time: each is as long as it held. */
export function Line({ values }) {
  const head = common(values.map(({ text }) => text));
  const at = (time) => (time ? new Date(time).getTime() : Date.now());
  const total = Math.max(1, at(values.at(-1).until) - at(values[0].time));
  return html`<div class="values">
    ${head.trim() && html`<p class="quiet"><bdi>${visible(head.trim())}</bdi> …</p>`}
    <ol class="value-line" aria-label=${t("history")}>
      ${values.map(({ text, time, until, why }, i) => {
        const isNow = i === values.length - 1 && !until;
        return html`<li key=${i} class=${isNow ? "is-now" : ""} style=${{ flexGrow: Math.max(0.02, (at(until) - at(time)) / total) }} title=${spelled(text)}>
          <span class="value"><bdi>${visible(text.slice(head.length))}</bdi></span>
          <span class="quiet">${isNow ? t("since", { from: day(time) }) : [...new Set([day(time), day(until)])].filter(Boolean).join(" – ")}</span>
          ${why && html`<span class="quiet">${t("endedBy", { text: spelled(why) })}</span>`}
        </li>`;
      })}
    </ol>
  </div>`;
}
