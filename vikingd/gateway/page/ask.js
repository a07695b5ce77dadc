// The box that a question is typed into: of the search, of the memories and of the context.
import { html, useEffect, useRef } from "./vendor/vendor.js";
import { t } from "./texts.js";

/**
 * The form. `/` focuses its box.
 * @param {{q: string, ask: (q: string) => void, name: string, hint: string, children}} props `q` is the
 *   question that is answered now, `children` are further fields
 */
export function Ask({ q, ask, name = t("search"), hint = t("searchHint"), children }) {
  const box = useRef(null);
  useEffect(() => {
    box.current.value = q;
  }, [q]);
  const submit = (event) => {
    event.preventDefault();
    ask(box.current.value.trim());
  };
  const onKeyDown = (event) => {
    if (event.key !== "ArrowDown") return;
    const first = document.querySelector(".results [tabindex='0']");
    if (first) event.preventDefault();
    first?.focus();
  };
  return html`<form class="ask" role="search" onSubmit=${submit}>
    <input ref=${box} type="search" aria-label=${name} placeholder=${hint} defaultValue=${q} autocomplete="off" enterkeyhint="search" onKeyDown=${onKeyDown} />
    ${children}
    <button class="primary">${t("go")}</button>
  </form>`;
}

/** Put the focus into the box of the view; return false if it has none. */
export function focusBox() {
  const box = document.querySelector(".ask input[type=search]");
  box?.focus();
  return Boolean(box);
}
