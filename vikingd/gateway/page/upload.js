// Files and folders of the browser that become contexts.
import { html, useEffect, useRef, useState } from "./vendor/vendor.js";
import { formats, upload } from "./api.js";
import { number, t } from "./texts.js";
import { useUnsaved } from "./unsaved.js";
import { spelled, visible } from "./visible.js";

const AT_ONCE = 3; // files that are sent
const BYTES_AT_ONCE = 64 * 1024 * 1024; // a larger file is sent alone
const TRIES = 6; // of a file
const LONGEST_WAIT = 30; // seconds
/** The extensions that are named, as far as they are read. */
const NAMED = [".md", ".pdf", ".docx", ".html", ".txt", ".pptx", ".xlsx", ".epub", ".ipynb", ".csv", ".rst", ".py", ".ts", ".go"];
const LEFT_OUT = /^(\..*|node_modules|__pycache__|venv|target|dist)$/; // of folders, as an import does
const DIRECTORY = "resources";

/** Return the files of dropped entries, with their paths. */
async function filesOf(entries) {
  const found = [];
  const walk = async (entry, path) => {
    if (LEFT_OUT.test(entry.name) && path) return;
    if (entry.isFile) found.push({ path: path + entry.name, file: await new Promise((done, fail) => entry.file(done, fail)) });
    else {
      const reader = entry.createReader();
      for (;;) {
        const part = await new Promise((done, fail) => reader.readEntries(done, fail)); // at most 100 at once
        if (!part.length) return;
        for (const child of part) await walk(child, `${path}${entry.name}/`);
      }
    }
  };
  for (const entry of entries) await walk(entry, "");
  return found;
}

/** Return the files that a person chose, with their paths. */
const chosenFiles = (files) =>
  [...files]
    .map((file) => ({ path: file.webkitRelativePath || file.name, file }))
    .filter(({ path }) => !path.split("/").slice(1).some((name) => LEFT_OUT.test(name)));

/** Tell whether the same file may be taken later; a quota that is used up names no time. */
const isBusy = ({ status, retryAfter }) => retryAfter > 0 || [408, 503].includes(status);

/** Wait some seconds, or until a signal. */
const rest = (seconds, signal) =>
  new Promise((done) => {
    setTimeout(done, 1000 * seconds);
    signal.addEventListener("abort", done);
  });

/**
 * The place to drop files, with the progress and what was not read.
 * @param {{done: (paths: string[]) => void, fail}} props `done` gets the paths that were read
 */
export function Upload({ done, fail }) {
  const [known, setKnown] = useState(null);
  const [work, setWork] = useState(null); // {all, read: [], refused: [[path, reason]], wait, isDone}; `wait` in seconds
  const [isOver, setOver] = useState(false);
  const files = useRef(null);
  const folder = useRef(null);
  const stop = useRef(null); // ends what is sent
  const isSending = Boolean(work) && !work.isDone;
  useUnsaved(isSending, (next) => next.q !== "" || !["find", "search"].includes(next.mode), "uploading");
  useEffect(() => {
    formats().then(setKnown, fail);
    folder.current?.setAttribute("webkitdirectory", "");
    return () => stop.current?.abort();
  }, []);

  const reasonOf = ({ path, file }) => {
    const ending = /\.[^./]+$/.exec(path)?.[0].toLowerCase() || "";
    if (known && ending && !known.extensions.includes(ending)) return t("unknownFormat");
    if (known && file.size > known.maxBytes) return t("tooLarge", { n: number(Math.floor(known.maxBytes / 1024)) });
    return "";
  };
  const send = async (found) => {
    if (!found.length || stop.current) return;
    const control = new AbortController();
    const { signal } = control;
    stop.current = control;
    const state = { all: found.length, read: [], refused: [], wait: 0, isDone: false };
    const show = () => setWork({ ...state });
    const waiting = found.map((one) => ({ ...one, tries: 0 }));
    const sent = new Set();
    let bytes = 0; // of `sent`
    const sendOne = async (one) => {
      try {
        const reply = await upload(`${DIRECTORY}/${one.path}`, one.file, signal);
        state.read.push(one.path);
        for (const remark of reply.remarks || []) state.refused.push([one.path, remark]);
      } catch (error) {
        if (signal.aborted) return;
        one.tries += 1;
        if (error.status === 401 || !error.status) {
          waiting.length = 0;
          fail(error);
        } else if (isBusy(error) && one.tries < TRIES) {
          waiting.unshift(one);
          state.wait = Math.min(LONGEST_WAIT, Math.max(state.wait, error.retryAfter, 2 ** (one.tries - 1)));
        } else state.refused.push([one.path, error.message]);
      }
    };
    const start = (one) => {
      const reason = reasonOf(one);
      if (reason) return state.refused.push([one.path, reason]);
      bytes += one.file.size;
      const ended = sendOne(one).finally(() => {
        sent.delete(ended);
        bytes -= one.file.size;
      });
      return sent.add(ended);
    };
    const hasRoom = () => sent.size < AT_ONCE && (!sent.size || bytes + waiting[0].file.size <= BYTES_AT_ONCE);
    show();
    while (!signal.aborted && (waiting.length || sent.size)) {
      if (state.wait && !sent.size) {
        await rest(state.wait, signal);
        state.wait = 0;
      }
      while (!signal.aborted && !state.wait && waiting.length && hasRoom()) start(waiting.shift());
      if (sent.size) await Promise.race(sent);
      show();
    }
    await Promise.all(sent);
    stop.current = null;
    state.isDone = true;
    show();
    done(state.read);
  };
  const onDrop = async (event) => {
    event.preventDefault();
    setOver(false);
    if (isSending) return;
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const found = entries.length ? filesOf(entries) : Promise.resolve(chosenFiles(event.dataTransfer.files));
    await found.then(send).catch(fail);
  };
  const choose = (event) => {
    send(chosenFiles(event.currentTarget.files));
    event.currentTarget.value = "";
  };
  const named = NAMED.filter((ending) => known?.extensions.includes(ending));
  const finished = work ? work.read.length + new Set(work.refused.map(([path]) => path)).size : 0;
  return html`<section class=${`drop ${isOver ? "is-over" : ""}`} aria-label=${t("addFiles")} onDragOver=${(event) => (event.preventDefault(), setOver(true))} onDragLeave=${() => setOver(false)} onDrop=${onDrop}>
    <h2>${t("addFiles")}</h2>
    <p class="quiet">${t("dropHere")}</p>
    <div class="actions">
      <button type="button" class="primary" disabled=${isSending} onClick=${() => folder.current.click()}>${t("chooseFolder")}</button>
      <button type="button" disabled=${isSending} onClick=${() => files.current.click()}>${t("chooseFiles")}</button>
      <input ref=${folder} class="hidden-file" type="file" multiple tabindex="-1" aria-label=${t("chooseFolder")} onChange=${choose} />
      <input ref=${files} class="hidden-file" type="file" multiple tabindex="-1" aria-label=${t("chooseFiles")} onChange=${choose} />
    </div>
    ${known && html`<p class="quiet formats" title=${known.extensions.join(" ")}>${t("formats", { list: named.join(" "), n: number(known.extensions.length - named.length) })}</p>`}
    ${work && html`<div class="progress" role="status">
      <progress max=${work.all} value=${finished} aria-label=${t("progress")}></progress>
      <p>${t(work.isDone ? "readDone" : "readSoFar", { n: number(work.read.length), all: number(work.all) })}
        ${!work.isDone && html` <button type="button" class="small" onClick=${() => stop.current?.abort()}>${t("stop")}</button>`}</p>
      ${!work.isDone && work.wait > 0 && html`<p>${t("waitsToSend", { n: number(work.wait) })}</p>`}
    </div>`}
    ${work && work.refused.length > 0 && html`<details class="refused" open=${work.refused.length <= 5}><summary>${t("notRead", { n: number(work.refused.length) })}</summary>
      <ul class="plain">${work.refused.map(([path, reason], index) => html`<li key=${index}><bdi>${visible(path)}</bdi> <span class="quiet">${spelled(reason)}</span></li>`)}</ul></details>`}
  </section>`;
}
