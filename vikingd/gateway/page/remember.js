// The form that stores a memory: of a project, or of none.
import { html, useState } from "./vendor/vendor.js";
import { call } from "./api.js";
import { kindName } from "./memory_row.js";
import { t } from "./texts.js";
import { useUnsaved } from "./unsaved.js";
import { spelled, visible } from "./visible.js";

const KINDS = ["preferences", "profile", "entities", "instructions", "tasks", "journal"];

/** The form. */
export function Remember({ project, open, changed, fail, drops }) {
  const [text, setText] = useState("");
  const [kind, setKind] = useState(KINDS[0]);
  const [done, setDone] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const name = project ? t("rememberIn", { project: spelled(project) }) : t("remember");
  useUnsaved(text !== "", drops);
  const remember = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      setDone(await call("remember", { text, memoryType: kind, scope: project ? { project } : { withGlobal: true } }));
      setText("");
      changed();
    } catch (error) {
      fail(error);
    }
    setBusy(false);
  };
  return html`<details class="new"><summary>${name}</summary>
    <form onSubmit=${remember}>
      <textarea aria-label=${name} value=${text} readonly=${isBusy} aria-busy=${isBusy} onInput=${(event) => setText(event.currentTarget.value)} required></textarea>
      <div class="actions">
        <select aria-label=${t("kind")} value=${kind} onChange=${(event) => setKind(event.currentTarget.value)}>
          ${KINDS.map((one) => html`<option key=${one} value=${one}>${kindName(one)}</option>`)}
        </select>
        <button class="primary" disabled=${isBusy}>${t("save")}</button>
      </div>
      ${done && html`<p class="note" role="status">${t("saved")} <button type="button" class="link" onClick=${() => open(done.uri)}><bdi>${visible(done.uri)}</bdi></button></p>`}
    </form></details>`;
}
