// One context: read, edited and deleted.
import { html, useEffect, useRef, useState } from "./vendor/vendor.js";
import { call } from "./api.js";
import { Copy } from "./copy.js";
import { Children, countFiles, NewFile } from "./directory.js";
import { Editor } from "./editor.js";
import { useEscape } from "./escape.js";
import { findLinked, unescaped } from "./linked.js";
import { headingOf } from "./markdown.js";
import { typeName } from "./results.js";
import { asTyped, lineEndOf, Stored } from "./stored.js";
import { number, t, time } from "./texts.js";
import { useUnsaved } from "./unsaved.js";
import { ancestorsOf, nameOf, parentOf, ROOT } from "./uris.js";
import { spelled, visible } from "./visible.js";

const LEAST_HEADINGS = 3; // of a text with a table of contents

/** Tell whether an abstract says more than the text below it. */
function isOwn({ abstract = "", abstractBy, content = "" }) {
  const plain = (text) => text.replace(/[^\p{L}\p{N}]+/gu, "");
  return Boolean(abstract) && abstractBy !== "extract" && !plain(content.slice(0, 4096)).includes(plain(abstract).slice(0, 60));
}

/**
 * A context.
 * @param {{uri: string, lines: string, changes: number, open, below, changed, fail, close}} props `lines` are marked and
 *   brought into view, `below` asks below a directory, `changed` tells of a write, `close` is null where nothing closes.
 */
export function Reader({ uri, lines, changes, open, below, changed, fail, close }) {
  const [context, setContext] = useState(null);
  const [draft, setDraft] = useState(null);
  const [note, setNote] = useState("");
  const [isRaw, setRaw] = useState(false);
  const [isOverviewRaw, setOverviewRaw] = useState(false);
  const [asked, setAsked] = useState(null); // {files}: a deletion that waits for its answer
  const [headings, setHeadings] = useState([]);
  const [isBusy, setBusy] = useState(false); // a reply is awaited that sets the text and its revision
  const article = useRef(null);
  const isShown = useRef(true);
  const load = async () => {
    setNote("");
    setAsked(null);
    setDraft(null);
    setBusy(true);
    try {
      setContext((await call("get", { uri })).context);
    } catch (error) {
      setContext({ uri, missing: true });
      fail(error);
    }
    setBusy(false);
  };
  useEffect(() => {
    load();
    return () => (isShown.current = false);
  }, []);
  useEffect(() => {
    article.current?.querySelector(".is-passage")?.scrollIntoView({ block: "center" });
  }, [context?.revision, lines, isRaw]);
  useEscape(Boolean(asked), () => setAsked(null));
  const content = context?.content || "";
  const isChanged = draft !== null && draft !== asTyped(content);
  useUnsaved(isChanged, (next) => next.uri !== uri);

  const save = async () => {
    const text = isChanged ? asTyped(draft).replace(/\n/g, lineEndOf(content) || "\n") : content;
    const write = { uri, content: text, updateMask: "content", expectedRevision: context.revision };
    setBusy(true);
    try {
      await call("put", { contexts: [write] });
      await load();
      setNote("saved");
      changed();
    } catch (error) {
      setBusy(false);
      if (error.reason === "REVISION_DIFFERS") setNote("conflict");
      else fail(error);
    }
  };
  const ask = async () => {
    try {
      setAsked(asked ? null : { files: context.isDirectory ? await countFiles(uri) : 0 });
    } catch (error) {
      fail(error);
    }
  };
  const remove = async () => {
    try {
      await call("delete", { uris: [uri], expectedRevision: context.revision });
      changed();
      open(parentOf(uri) === ROOT ? "" : parentOf(uri));
    } catch (error) {
      if (error.reason !== "REVISION_DIFFERS") return fail(error);
      setAsked(null);
      setNote("conflictDelete");
    }
    return undefined;
  };
  /** Follow a link of the text: to a part of it, or to another context. */
  const follow = async (to) => {
    if (to.startsWith("#")) return show(`part-${unescaped(to.slice(1)).toLowerCase()}`);
    const found = await findLinked(uri, to).catch(fail);
    if (!isShown.current) return undefined; // the person has gone elsewhere
    if (found) open(found);
    else if (found === "") setNote("notStored");
    return undefined;
  };
  const show = (id) => {
    const heading = [...article.current.querySelectorAll("[id]")].find((one) => one.id === id);
    heading?.scrollIntoView();
    heading?.focus({ preventScroll: true });
  };
  if (!context) return html`<article class="context" aria-busy="true"><p class="quiet">${t("loading")}</p></article>`;
  const isFile = !context.isDirectory && !context.missing;
  const title = context.title && !context.title.includes("/") ? headingOf(context.title) : nameOf(uri);
  const hasContents = draft === null && !isRaw && headings.length >= LEAST_HEADINGS;
  const about = context.metadata && Object.keys(context.metadata).length > 0;
  return html`<article ref=${article} class=${`context ${draft === null ? "" : "is-edited"}`} aria-label=${spelled(uri)}>
    <header>
      <div>
        <p class="quiet uri">${ancestorsOf(uri).map((above) => html`<button key=${above} type="button" class="link" onClick=${() => open(above)}><bdi>${visible(nameOf(above))}</bdi></button>${above === ROOT ? "" : "/"}`)}<bdi>${visible(nameOf(uri))}</bdi> <${Copy} text=${uri} /></p>
        <h1><bdi>${visible(title)}</bdi></h1>
      </div>
      ${close && html`<button type="button" class="icon" aria-label=${t("close")} title=${t("close")} onClick=${close}>×</button>`}
    </header>
    <p class="quiet facts-line">
      ${context.contextType && html`<span class=${`type type-${context.contextType.slice(13).toLowerCase()}`}>${typeName(context.contextType)}</span>`}
      ${context.updateTime && html`<span>${t("updated", { time: time(context.updateTime) })}</span>`}<span>${t("revision")} ${number(context.revision)}</span>
    </p>
    <div class="actions">
      ${context.isDirectory && html`<button type="button" onClick=${() => below(uri)}>${t("askBelow")}</button>`}
      ${isFile && draft === null && html`<button type="button" disabled=${isBusy} onClick=${() => setDraft(asTyped(content))}>${t("edit")}</button>`}
      ${isFile && draft === null && html`<button type="button" aria-pressed=${isRaw} onClick=${() => setRaw(!isRaw)}>${isRaw ? t("rendered") : t("raw")}</button>`}
      ${!context.missing && draft === null && uri !== ROOT && html`<button type="button" class="danger" onClick=${ask}>${t("remove")}</button>`}
    </div>
    ${asked && html`<div class="note is-warning" role="alertdialog" aria-label=${t("remove")}><p>${t(context.isDirectory ? "removeAll" : "removeAsk", { uri: spelled(uri), n: number(asked.files) })}</p>
      <button type="button" class="danger" onClick=${remove}>${t("remove")}</button> <button type="button" onClick=${() => setAsked(null)}>${t("cancel")}</button></div>`}
    ${note === "saved" && html`<p class="note" role="status">${t("saved")}</p>`}
    ${note === "notStored" && html`<p class="note" role="status">${t("notStored")}</p>`}
    ${note.startsWith("conflict") && html`<div class="note is-warning" role="alert"><p>${t(note)}</p><button type="button" disabled=${isBusy} onClick=${load}>${t("reload")}</button></div>`}
    ${hasContents && html`<nav class="toc" aria-label=${t("contents")}><h2>${t("contents")}</h2><ul class="plain">
      ${headings.map(({ level, text, id }) => html`<li key=${id} class=${`level-${level}`}><button type="button" class="link" onClick=${() => show(id)}><bdi>${visible(text)}</bdi></button></li>`)}</ul></nav>`}
    <div class="body">
      ${isOwn(context) && draft === null && html`<p class="lead"><bdi>${visible(context.abstract)}</bdi></p>`}
      ${context.overview && context.overviewBy !== "extract" && draft === null && html`<section><h2>${t("overview")}</h2><${Stored} text=${context.overview} isRaw=${isOverviewRaw} setRaw=${setOverviewRaw} open=${follow} /></section>`}
      ${draft !== null
        ? html`<${Editor} draft=${draft} setDraft=${setDraft} isMixed=${!lineEndOf(content)} isBusy=${isBusy} save=${save} cancel=${load} />`
        : content && html`<section aria-label=${t("content")}><${Stored} text=${content} isRaw=${isRaw} setRaw=${setRaw} open=${follow} title=${title} lines=${lines} setHeadings=${setHeadings} /></section>`}
      ${context.isDirectory && html`<${Children} uri=${uri} changes=${changes} open=${open} fail=${fail} />`}
      ${about && draft === null && html`<section><h2>${t("metadata")}</h2><dl class="pairs">${Object.entries(context.metadata).map(([key, value]) => html`<div key=${key}><dt><bdi>${visible(key)}</bdi></dt><dd><bdi>${visible(typeof value === "string" ? value : JSON.stringify(value))}</bdi></dd></div>`)}</dl></section>`}
      ${(context.relations || []).length > 0 &&
      html`<section><h2>${t("relations")}</h2><ul class="plain">${context.relations.map((one) => html`<li key=${one.uri}><button type="button" class="link" onClick=${() => open(one.uri)}><bdi>${visible(one.uri)}</bdi></button> <span class="quiet">${visible(one.reason)}</span></li>`)}</ul></section>`}
      ${context.isDirectory && html`<${NewFile} directory=${uri} open=${open} changed=${changed} fail=${fail} />`}
    </div>
  </article>`;
}
