// A button that copies a text, and a block of code with one.
import { html, useState } from "./vendor/vendor.js";
import { t } from "./texts.js";

const SHOWN = 2000; // milliseconds for which the button says that it is done

/** The button; `text` is what it copies. */
export function Copy({ text }) {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("copied");
    } catch {
      say("notCopied"); // the browser forbids it on an address without TLS that is not local
    }
    setTimeout(() => say(""), SHOWN);
  };
  return html`<button type="button" class="small copy" aria-live="polite" onClick=${copy}>${t(said || "copy")}</button>`;
}

/** A command or a configuration that can be copied. */
export const Code = ({ text, label }) => html`<div class="code">
  <pre tabindex="0" aria-label=${label}><code>${text}</code></pre>
  <${Copy} text=${text} />
</div>`;
