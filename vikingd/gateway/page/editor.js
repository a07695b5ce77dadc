// The editor of a text, with its preview.
import { html, useEffect, useState } from "./vendor/vendor.js";
import { markdown } from "./markdown.js";
import { t } from "./texts.js";

const PAUSE = 250; // milliseconds without a key until the preview follows
const SHOWN = 64 * 1024; // characters of a preview

/** The text box and its preview beside it; while it is busy, nothing is typed that a reply would drop. */
export function Editor({ draft, setDraft, isMixed, isBusy, save, cancel }) {
  const [hasPreview, setPreview] = useState(false);
  const [shown, show] = useState(draft);
  useEffect(() => {
    const timer = setTimeout(() => show(draft), PAUSE);
    return () => clearTimeout(timer);
  }, [draft]);
  return html`${isMixed && html`<p class="note is-warning">${t("mixedEnds")}</p>`}
    <div class=${`editor ${hasPreview ? "has-preview" : ""}`}>
      <textarea aria-label=${t("content")} value=${draft} readonly=${isBusy} aria-busy=${isBusy} spellcheck="false" onInput=${(event) => setDraft(event.currentTarget.value)}></textarea>
      ${hasPreview && html`<section class="text preview" tabindex="0" aria-label=${t("preview")}>${markdown(shown.slice(0, SHOWN))}</section>`}
    </div>
    <div class="actions">
      <button type="button" class="primary" disabled=${isBusy} onClick=${save}>${t("save")}</button>
      <button type="button" disabled=${isBusy} onClick=${cancel}>${t("cancel")}</button>
      <button type="button" aria-pressed=${hasPreview} onClick=${() => setPreview(!hasPreview)}>${t("preview")}</button>
    </div>`;
}
