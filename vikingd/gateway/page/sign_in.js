// The form of the sign-in. The key leaves the page once and is not kept.
import { html, useEffect, useRef, useState } from "./vendor/vendor.js";
import { signIn } from "./api.js";
import { t } from "./texts.js";

/** The dialog that asks for a key. */
export function SignIn({ done, describe }) {
  const dialog = useRef(null);
  const [error, setError] = useState("");
  useEffect(() => dialog.current.showModal(), []);
  const submit = async (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    try {
      await signIn(form.elements.key.value, form.elements.tenant.value);
      form.reset();
      done();
    } catch (failure) {
      const isRefused = [400, 401, 403].includes(failure.status);
      setError(isRefused ? t("keyRefused", { message: describe(failure) }) : describe(failure));
      if (!isRefused) return;
      form.elements.key.value = "";
      form.elements.key.focus();
    }
  };
  return html`<dialog ref=${dialog} class="sign-in" aria-label=${t("signIn")} onCancel=${(event) => event.preventDefault()}>
    <form onSubmit=${submit}>
      <h2>${t("signIn")}</h2>
      <p class="quiet">${t("signInAbout")}</p>
      <label>${t("key")}<input name="key" type="password" autocomplete="off" required autofocus /></label>
      <label>${t("tenant")}<input name="tenant" autocomplete="off" /></label>
      ${error && html`<p class="note is-warning" role="alert">${error}</p>`}
      <button class="primary">${t("signIn")}</button>
    </form>
  </dialog>`;
}
