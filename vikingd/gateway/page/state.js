// The state of the daemon.
import { html } from "./vendor/vendor.js";
import { t } from "./texts.js";
import { Live } from "./live.js";

/** The view. */
export const State = ({ changes }) => html`<div class="answer"><h1>${t("state")}</h1><${Live} changes=${changes} /></div>`;
