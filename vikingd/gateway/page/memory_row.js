// A memory in a list: its text, and when it is open its history, where it was said, and what can be done with it.
import { html, useEffect, useRef, useState } from "./vendor/vendor.js";
import { call } from "./api.js";
import { useEscape } from "./escape.js";
import { dayOf, forget, headingOf, isEpisode, listFiles, ownerOf, readEntries, restore, rewrite } from "./memory_files.js";
import { journalOf, Line, turnsOf, valuesOf } from "./memory_history.js";
import { day, number, t, TEXTS, time } from "./texts.js";
import { useUnsaved } from "./unsaved.js";
import { nameOf } from "./uris.js";
import { spelled, visible } from "./visible.js";

const TURNS = 4; // of a conversation that are shown

/** The memories that this page forgot and can write again: what `restore` takes, by `keyOf`. */
export const forgotten = new Map();

/** The memories whose text is typed and not saved, by `keyOf`: they stay in their list. */
export const editing = new Set();

export const keyOf = ({ uri, id }) => `${uri} ${id}`;

/** Return the name of a kind of memories. */
export const kindName = (kind) => (TEXTS[`memories.${kind}`] ? t(`memories.${kind}`) : kind);

/**
 * The row.
 * @param {{memory, about: string, head, children, open, changed, fail, drops}} props `about` stands at its end,
 *   `head` before its text and `children` below it; `changed` tells of a write, with the entry before and after it if
 *   there are both; `drops` tells whether a state of the page removes the row
 */
export function MemoryRow({ memory, about, head, children, open, changed, fail, drops }) {
  const [now, setNow] = useState(memory); // as this row has written it
  const [isOpen, setOpen] = useState(false);
  const [receipt, setReceipt] = useState(forgotten.get(keyOf(memory)));
  const [note, setNote] = useState("");
  const [isOpenTwice, setOpenTwice] = useState(false); // closed while its text is not saved
  const line = useRef(null);
  const isMoved = useRef(false); // the focus goes where the memory or its Undo is now
  const toggle = () => {
    const isHeld = isOpen && editing.has(keyOf(now));
    setOpenTwice(isHeld);
    if (!isHeld) setOpen(!isOpen);
    setNote("");
  };
  useEscape(isOpen, toggle);
  useEffect(() => {
    if (isMoved.current) line.current?.focus();
    isMoved.current = false;
  }, [receipt]);
  const undo = async () => {
    try {
      const { entry, how, unlinked } = await restore(receipt);
      forgotten.delete(keyOf(receipt.entry));
      isMoved.current = true;
      setReceipt(null);
      setNow(entry);
      setNote([t(how, { id: entry.id }), unlinked.length && t("notLinked", { uris: unlinked.map(spelled).join(" ") })].filter(Boolean).join(" "));
      changed(receipt.entry, entry);
    } catch (error) {
      fail(error);
    }
  };
  if (receipt) {
    return html`<li class="memory is-gone">
      <p role="status">${t("forgotten")} <bdi class="quiet">${visible(receipt.entry.text.slice(0, 120))}</bdi></p>
      <button type="button" class="small" ref=${line} onClick=${undo}>${t("undo")}</button>
    </li>`;
  }
  const gone = (made) => {
    forgotten.set(keyOf(made.entry), made);
    isMoved.current = true;
    setOpen(false);
    setReceipt(made);
    changed();
  };
  const shown = now.id === memory.id ? { ...memory, ...now } : now;
  return html`<li class=${`memory ${head ? "result" : ""} ${isOpen ? "is-open" : ""} ${shown.isEarlier ? "is-earlier" : ""}`}>
    <div class="memory-head">${head}
      <button type="button" class="memory-text" ref=${line} aria-expanded=${isOpen} onClick=${toggle}><bdi>${visible(shown.text)}</bdi></button>
      <span class="memory-about quiet">${shown.isPinned && html`<span class="badge" title=${t("pinned")}>${t("pinnedShort")}</span>`}
        ${shown.reinforcement > 0 && html`<span title=${t("reinforcedTimes", { n: number(shown.reinforcement) })}>×${number(shown.reinforcement)}</span>`}
        ${ownerOf(shown.uri) && html`<bdi>${visible(ownerOf(shown.uri))}</bdi>`}
        <span>${about}</span></span>
    </div>
    ${note && html`<p class="note" role="status">${note}</p>`}
    ${isOpenTwice && html`<p class="note is-warning" role="alert">${t("saveFirst")}</p>`}
    ${children}
    ${isOpen && html`<${Details} memory=${shown} setNow=${(next) => (setNow(next), changed(shown, next))} gone=${gone} open=${open} fail=${fail} drops=${drops} />`}
  </li>`;
}

/** The memory as it is stored now, with its history; null while it is read. */
function useStored({ uri, id }, fail) {
  const [stored, setStored] = useState(null);
  useEffect(() => {
    const abort = new AbortController();
    const read = async () => {
      const own = await readEntries([uri], abort.signal);
      const entry = own.find((one) => one.id === id);
      if (!entry) return setStored({ isMissing: true });
      setStored({ entry, values: [], turns: [] });
      const uris = await listFiles(abort.signal);
      const days = own.some(({ isEarlier }) => isEarlier) ? own : [entry];
      const said = await readEntries(journalOf(days, uris).filter((one) => one !== uri), abort.signal);
      const all = [...own, ...said];
      return setStored({ entry, values: valuesOf(entry, all), turns: isEpisode(uri) ? [] : turnsOf(entry, all) });
    };
    read().catch(fail);
    return () => abort.abort();
  }, [uri, id]);
  return stored;
}

function Details({ memory, setNow, gone, open, fail, drops }) {
  const stored = useStored(memory, fail);
  const [draft, setDraft] = useState(null);
  const [note, setNote] = useState("");
  const [isBusy, setBusy] = useState(false);
  const entry = stored?.entry;
  const isChanged = draft !== null && draft.trim() !== entry?.text;
  useUnsaved(isChanged, drops);
  if (isChanged) editing.add(keyOf(entry));
  else editing.delete(keyOf(memory));
  useEffect(() => () => editing.delete(keyOf(memory)), [memory.uri, memory.id]);
  const box = useRef(null);
  const wasEdited = useRef(false);
  // The box has what was typed last, also before it is drawn.
  useEscape(draft !== null, () => (box.current.value.trim() === entry.text ? setDraft(null) : setNote("saveFirst")));
  useEffect(() => {
    if (draft !== null || wasEdited.current) box.current?.focus();
    wasEdited.current = draft !== null;
  }, [draft !== null]);
  const act = (done) => async () => {
    setNote("");
    setBusy(true);
    try {
      await done();
    } catch (error) {
      if (error.reason === "REVISION_DIFFERS") setNote("memoryChanged");
      else fail(error);
    }
    setBusy(false);
  };
  if (!stored) return html`<p class="quiet" aria-busy="true">${t("loading")}</p>`;
  if (!entry) return html`<div class="memory-details"><p class="note is-warning" role="alert">${t("memoryGone")}</p></div>`;
  const save = act(async () => {
    setNow(await rewrite(entry, { text: draft }));
    setDraft(null);
    setNote("saved");
  });
  const pin = act(async () => setNow(await rewrite(entry, { isPinned: !entry.isPinned })));
  const reinforce = act(async () => {
    const { reinforcements } = await call("reinforce", { ids: [entry.id] });
    entry.reinforcement = Number(reinforcements[0]);
    entry.accessCount += 1;
    setNow({ ...entry });
  });
  const remove = act(async () => gone(await forget(entry)));
  return html`<div class="memory-details">
    ${draft === null
      ? html`<div class="actions">
          <button type="button" class="small" ref=${box} disabled=${isBusy} onClick=${() => setDraft(entry.text)}>${t("edit")}</button>
          <button type="button" class="small" aria-pressed=${entry.isPinned} disabled=${isBusy} onClick=${pin}>${t(entry.isPinned ? "unpin" : "pin")}</button>
          <button type="button" class="small" disabled=${isBusy} onClick=${reinforce}>${t("reinforce")}</button>
          <button type="button" class="small danger" disabled=${isBusy} onClick=${remove}>${t("forget")}</button>
        </div>`
      : html`<textarea aria-label=${t("memoryText")} ref=${box} value=${draft} readonly=${isBusy} aria-busy=${isBusy} onInput=${(event) => setDraft(event.currentTarget.value)}></textarea>
          <div class="actions"><button type="button" class="primary" disabled=${isBusy || !draft.trim()} onClick=${save}>${t("save")}</button><button type="button" disabled=${isBusy} onClick=${() => (setDraft(null), setNote(""))}>${t("cancel")}</button></div>`}
    ${note && html`<p class=${`note ${note === "saved" ? "" : "is-warning"}`} role=${note === "saved" ? "status" : "alert"}>${t(note)}</p>`}
    ${stored.values.length > 1 && html`<section><h3>${t("history")}</h3><${Line} values=${stored.values} /></section>`}
    <section><h3>${t("whereSaid")}</h3>
      <ul class="plain">
        ${stored.turns.slice(0, TURNS).map((turn) => html`<li key=${turn.id}><button type="button" class="link" onClick=${() => open(turn.uri, turn.lines)}><bdi>${visible(turn.text)}</bdi></button>${" "}
          <span class="quiet">${t("conversationOf", { name: nameOf(turn.uri).replace(/^session-|\.md$/g, ""), day: day(dayOf(turn.uri)) })}</span></li>`)}
        ${/^https?:\/\//.test(entry.source) && html`<li><a href=${entry.source} target="_blank" rel="noopener noreferrer"><bdi>${visible(entry.source)}</bdi></a></li>`}
        <li><button type="button" class="link" onClick=${() => open(entry.uri, entry.lines)}><bdi>${visible(entry.uri)}</bdi></button><span class="quiet">:${entry.lines}</span>
          ${headingOf(entry) && html` <span class="quiet"><bdi>${visible(headingOf(entry))}</bdi></span>`}</li>
      </ul>
    </section>
    <p class="quiet">${t("memoryTimes", { said: time(entry.time), written: day(entry.createTime), n: number(entry.reinforcement), used: number(entry.accessCount) })}</p>
  </div>`;
}
