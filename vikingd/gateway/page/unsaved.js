// Texts that a person typed and did not save: no step of the page drops one without a question.
import { html, useEffect, useRef } from "./vendor/vendor.js";
import { t } from "./texts.js";

const held = new Map();

/**
 * Hold a text of a component while it is unsaved.
 * @param {boolean} isUnsaved
 * @param {(next: object) => boolean} drops whether a state of the page drops the text
 */
export function useUnsaved(isUnsaved, drops) {
  const own = useRef({}).current;
  if (isUnsaved) held.set(own, drops);
  else held.delete(own);
  useEffect(() => () => held.delete(own), []);
}

/** Tell whether a text is unsaved. */
export const hasUnsaved = () => held.size > 0;

/** Tell whether a state of the page drops an unsaved text. */
export const isDropping = (next) => [...held.values()].some((drops) => drops(next));

/** Hold no text any more: the person drops them. */
export const release = () => held.clear();

addEventListener("beforeunload", (event) => {
  if (held.size) event.preventDefault();
});

/** The question before a text is dropped. */
export function Question({ drop, keep }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  const onCancel = (event) => {
    event.preventDefault();
    keep();
  };
  return html`<dialog ref=${dialog} role="alertdialog" aria-label=${t("unsaved")} onCancel=${onCancel}>
    <h2>${t("unsaved")}</h2>
    <p>${t("unsavedAsk")}</p>
    <div class="actions">
      <button type="button" class="primary" onClick=${keep}>${t("keepText")}</button>
      <button type="button" class="danger" onClick=${drop}>${t("dropText")}</button>
    </div>
  </dialog>`;
}
