// Texts that a person typed and did not save, and uploads that run: no step of the page drops one without a question.
import { html, useEffect, useRef } from "./vendor/vendor.js";
import { t } from "./texts.js";

const held = new Map(); // {drops, name} by component

/**
 * Hold a text or an upload of a component while it is unsaved.
 * @param {boolean} isUnsaved
 * @param {(next: object) => boolean} drops whether a state of the page drops it
 * @param {string} name of its question in the table of texts
 */
export function useUnsaved(isUnsaved, drops, name = "unsaved") {
  const own = useRef({}).current;
  if (isUnsaved) held.set(own, { drops, name });
  else held.delete(own);
  useEffect(() => () => held.delete(own), []);
}

/** Tell whether something is unsaved. */
export const hasUnsaved = () => held.size > 0;

/** Tell whether a state of the page drops something unsaved. */
export const isDropping = (next) => [...held.values()].some(({ drops }) => drops(next));

/** Hold nothing any more: the person drops it. */
export const release = () => held.clear();

addEventListener("beforeunload", (event) => {
  if (held.size) event.preventDefault();
});

/** The question before a text or an upload is dropped. */
export function Question({ drop, keep }) {
  const dialog = useRef(null);
  const name = useRef([...held.values()].some((one) => one.name === "unsaved") ? "unsaved" : "uploading").current;
  useEffect(() => dialog.current.showModal(), []);
  const onCancel = (event) => {
    event.preventDefault();
    keep();
  };
  return html`<dialog ref=${dialog} role="alertdialog" aria-label=${t(name)} onCancel=${onCancel}>
    <h2>${t(name)}</h2>
    <p>${t(`${name}Ask`)}</p>
    <div class="actions">
      <button type="button" class="primary" onClick=${keep}>${t(`${name}Keep`)}</button>
      <button type="button" class="danger" onClick=${drop}>${t(`${name}Drop`)}</button>
    </div>
  </dialog>`;
}
