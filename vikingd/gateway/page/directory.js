// A directory: its children with their abstracts and numbers, and a new file in it.
import { html, useEffect, useState } from "./vendor/vendor.js";
import { call } from "./api.js";
import { number, t, time } from "./texts.js";
import { useUnsaved } from "./unsaved.js";
import { below, nameOf, ROOT } from "./uris.js";
import { visible } from "./visible.js";

const PAGE = 10_000; // files of one call
const SHOWN = 100; // children of one page

/** Return the number of files below a directory. */
export async function countFiles(uri) {
  let count = 0;
  for (let pageToken = ""; ;) {
    const reply = await call("glob", { pattern: "**", targetUri: uri, kind: "NODE_KIND_FILE", pageSize: PAGE, pageToken });
    count += (reply.entries || []).length;
    pageToken = reply.nextPageToken;
    if (!pageToken) return count;
  }
}

/** Return the number of files by the child that they are below, and whether there are more. */
async function countByChild(uri) {
  const reply = await call("glob", { pattern: "**", targetUri: uri, kind: "NODE_KIND_FILE", pageSize: PAGE });
  const counts = new Map();
  for (const entry of reply.entries || []) {
    const rest = entry.uri.slice(uri === ROOT ? ROOT.length : uri.length + 1);
    const child = below(uri, rest.split("/")[0]);
    counts.set(child, (counts.get(child) || 0) + 1);
  }
  return { counts, isCut: Boolean(reply.nextPageToken) };
}

/** The children of a directory, by pages. */
export function Children({ uri, changes, open, fail }) {
  const [children, setChildren] = useState(null);
  const [token, setToken] = useState("");
  const [inside, setInside] = useState({ counts: new Map(), isCut: false });
  const read = async (pageToken, before) => {
    try {
      const reply = await call("list", { uri, pageSize: SHOWN, pageToken });
      setChildren([...before, ...(reply.contexts || [])]);
      setToken(reply.nextPageToken || "");
    } catch (error) {
      fail(error);
    }
  };
  useEffect(() => {
    read("", []);
    countByChild(uri).then(setInside, fail);
  }, [changes]);
  if (!children) return null;
  const files = (child) => `${number(inside.counts.get(child.uri))}${inside.isCut ? "+" : ""}`;
  return html`<section aria-label=${t("entries")}><ul class="plain children">
    ${children.map((child) => html`<li key=${child.uri}>
      <button type="button" class="link" onClick=${() => open(child.uri)}><bdi>${visible(nameOf(child.uri))}</bdi>${child.isDirectory ? "/" : ""}</button>
      <span class="quiet count">${child.isDirectory ? t("files", { n: files(child) }) : time(child.time)}</span>
      ${child.abstract && html`<p class="quiet"><bdi>${visible(child.abstract)}</bdi></p>`}
    </li>`)}
    ${!children.length && html`<li class="quiet">${t("emptyDirectory")}</li>`}
  </ul>${token && html`<button type="button" onClick=${() => read(token, children)}>${t("more")}</button>`}</section>`;
}

/** The form of a new file. */
export function NewFile({ directory, open, changed, fail }) {
  const [name, setName] = useState("");
  const [content, setContent] = useState("");
  const [isBusy, setBusy] = useState(false);
  useUnsaved(content !== "", (next) => next.uri !== directory);
  const create = async (event) => {
    event.preventDefault();
    const uri = below(directory, name.trim());
    setBusy(true);
    try {
      await call("put", { contexts: [{ uri, content, expectedRevision: "0" }] });
      setContent("");
      changed();
      open(uri);
    } catch (error) {
      fail(error);
    }
    setBusy(false);
  };
  return html`<details class="new"><summary>${t("newFile")}</summary>
    <form onSubmit=${create}>
      <input aria-label=${t("newName")} placeholder=${t("newName")} value=${name} readonly=${isBusy} onInput=${(event) => setName(event.currentTarget.value)} required />
      <textarea aria-label=${t("content")} value=${content} readonly=${isBusy} aria-busy=${isBusy} onInput=${(event) => setContent(event.currentTarget.value)} required></textarea>
      <button class="primary" disabled=${isBusy}>${t("create")}</button>
    </form></details>`;
}
