// One context: read, edited, created and deleted.
import { html, useEffect, useState } from "./vendor/vendor.js";
import { call } from "./api.js";
import { typeName } from "./results.js";
import { asTyped, lineEndOf, Stored } from "./stored.js";
import { current, number, t } from "./texts.js";
import { useUnsaved } from "./unsaved.js";
import { below, nameOf, parentOf, ROOT } from "./uris.js";
import { spelled, visible } from "./visible.js";

/**
 * A context.
 * @param {{uri: string, open, target, changed, fail, close}} props `target` asks below a directory,
 *   `changed` tells of a write.
 */
export function Context({ uri, open, target, changed, fail, close }) {
  const [context, setContext] = useState(null);
  const [draft, setDraft] = useState(null);
  const [note, setNote] = useState("");
  const [isRaw, setRaw] = useState(false);
  const [isOverviewRaw, setOverviewRaw] = useState(false);
  const [asked, setAsked] = useState(false);
  const load = async () => {
    setNote("");
    setAsked(false);
    setDraft(null);
    try {
      setContext((await call("get", { uri })).context);
    } catch (error) {
      setContext({ uri, missing: true });
      fail(error);
    }
  };
  useEffect(() => {
    load();
  }, []);
  const content = context?.content || "";
  const isChanged = draft !== null && draft !== asTyped(content);
  useUnsaved(isChanged, (next) => next.uri !== uri);

  const save = async () => {
    const text = isChanged ? asTyped(draft).replace(/\n/g, lineEndOf(content) || "\n") : content;
    const write = { uri, content: text, updateMask: "content", expectedRevision: context.revision };
    try {
      await call("put", { contexts: [write] });
      await load();
      setNote("saved");
      changed();
    } catch (error) {
      if (error.reason === "REVISION_DIFFERS") setNote("conflict");
      else fail(error);
    }
  };
  const remove = async () => {
    try {
      await call("delete", { uris: [uri], expectedRevision: context.revision });
      changed();
      open(parentOf(uri) === ROOT ? "" : parentOf(uri));
    } catch (error) {
      if (error.reason !== "REVISION_DIFFERS") return fail(error);
      setAsked(false);
      setNote("conflictDelete");
    }
  };
  if (!context) return html`<article class="context" aria-busy="true"><p class="quiet">${t("loading")}</p></article>`;
  const isFile = !context.isDirectory && !context.missing;
  return html`<article class="context" aria-label=${spelled(uri)}>
    <header>
      <h2><bdi>${visible(context.title || nameOf(uri))}</bdi></h2>
      <button type="button" class="icon" aria-label=${t("close")} title=${t("close")} onClick=${close}>×</button>
    </header>
    <p class="quiet uri"><bdi>${visible(uri)}</bdi></p>
    <p class="quiet">
      ${context.contextType && html`<span class=${`type type-${context.contextType.slice(13).toLowerCase()}`}>${typeName(context.contextType)}</span> `}
      ${context.updateTime && html`${t("updated", { time: new Date(context.updateTime).toLocaleString(current() === "zh" ? "zh-CN" : "en") })} · `}${t("revision")} ${number(context.revision)}
    </p>
    <div class="actions">
      ${context.isDirectory && html`<button type="button" onClick=${() => target(uri)}>${t("askBelow")}</button>`}
      ${isFile && draft === null && html`<button type="button" onClick=${() => setDraft(asTyped(content))}>${t("edit")}</button>`}
      ${isFile && draft === null && html`<button type="button" aria-pressed=${isRaw} onClick=${() => setRaw(!isRaw)}>${isRaw ? t("rendered") : t("raw")}</button>`}
      ${!context.missing && draft === null && html`<button type="button" class="danger" onClick=${() => setAsked(!asked)}>${t("remove")}</button>`}
    </div>
    ${asked && html`<div class="note is-warning" role="alertdialog" aria-label=${t("remove")}><p>${t("removeAsk", { uri: spelled(uri) })}</p>
      <button type="button" class="danger" onClick=${remove}>${t("remove")}</button> <button type="button" onClick=${() => setAsked(false)}>${t("cancel")}</button></div>`}
    ${note === "saved" && html`<p class="note" role="status">${t("saved")}</p>`}
    ${note.startsWith("conflict") && html`<div class="note is-warning" role="alert"><p>${t(note)}</p><button type="button" onClick=${load}>${t("reload")}</button></div>`}
    ${context.abstract && draft === null && html`<section><h3>${t("abstract")}</h3><p><bdi>${visible(context.abstract)}</bdi></p></section>`}
    ${context.overview && draft === null && html`<section><h3>${t("overview")}</h3><${Stored} text=${context.overview} isRaw=${isOverviewRaw} setRaw=${setOverviewRaw} open=${open} /></section>`}
    ${draft !== null
      ? html`${!lineEndOf(content) && html`<p class="note is-warning">${t("mixedEnds")}</p>`}
          <textarea aria-label=${t("content")} value=${draft} onInput=${(event) => setDraft(event.currentTarget.value)}></textarea>
          <div class="actions"><button type="button" class="primary" onClick=${save}>${t("save")}</button><button type="button" onClick=${load}>${t("cancel")}</button></div>`
      : content &&
        html`<section><h3>${t("content")}</h3><${Stored} text=${content} isRaw=${isRaw} setRaw=${setRaw} open=${open} /></section>`}
    ${context.metadata && html`<section><h3>${t("metadata")}</h3><pre class="text">${visible(JSON.stringify(context.metadata, null, 2))}</pre></section>`}
    ${(context.relations || []).length > 0 &&
    html`<section><h3>${t("relations")}</h3><ul class="plain">${context.relations.map((one) => html`<li key=${one.uri}><button type="button" class="link" onClick=${() => open(one.uri)}><bdi>${visible(one.uri)}</bdi></button> <span class="quiet">${visible(one.reason)}</span></li>`)}</ul></section>`}
    ${context.isDirectory && html`<${NewFile} directory=${uri} open=${open} changed=${changed} fail=${fail} />`}
  </article>`;
}

function NewFile({ directory, open, changed, fail }) {
  const [name, setName] = useState("");
  const [content, setContent] = useState("");
  useUnsaved(content !== "", (next) => next.uri !== directory);
  const create = async (event) => {
    event.preventDefault();
    const uri = below(directory, name.trim());
    try {
      await call("put", { contexts: [{ uri, content, expectedRevision: "0" }] });
      setContent("");
      changed();
      open(uri);
    } catch (error) {
      fail(error);
    }
  };
  return html`<details class="new"><summary>${t("newFile")}</summary>
    <form onSubmit=${create}>
      <input aria-label=${t("newName")} placeholder=${t("newName")} value=${name} onInput=${(event) => setName(event.currentTarget.value)} required />
      <textarea aria-label=${t("content")} value=${content} onInput=${(event) => setContent(event.currentTarget.value)} required></textarea>
      <button class="primary">${t("create")}</button>
    </form></details>`;
}
