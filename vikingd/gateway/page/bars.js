// Stacked bars of the parts of a score, and their legend.
import { html } from "./vendor/vendor.js";
import { t } from "./texts.js";

/**
 * A stacked bar on a scale from 0 to `most`.
 * @param {{parts: Object<string, number>, most: number, label: string}} props
 */
export function Bar({ parts, most, label }) {
  let at = 0;
  const pieces = Object.entries(parts).filter(([, share]) => share > 0.0005);
  return html`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label=${label}>
    <rect class="bar-back" width="100" height="8" rx="1" />
    ${pieces.map(([name, share]) => {
      const x = at;
      const width = (100 * share) / (most || 1);
      at += width;
      return html`<rect key=${name} class=${`part-${name}`} x=${x} width=${Math.max(0, width - 0.3)} height="8">
        <title>${t(name)} ${share.toFixed(3)}</title>
      </rect>`;
    })}
  </svg>`;
}

/** The legend of the parts that occur. */
export function Legend({ names }) {
  return html`<ul class="legend">
    ${names.map(
      (name) => html`<li key=${name}>
        <svg viewBox="0 0 8 8" aria-hidden="true"><rect class=${`part-${name}`} width="8" height="8" rx="1.5" /></svg>${t(name)}
      </li>`,
    )}
  </ul>`;
}

/** Return a bar's text for those who do not see it. */
export const spoken = (parts, total) =>
  `${Number(total || 0).toFixed(3)}: ${Object.entries(parts)
    .filter(([, share]) => share > 0.0005)
    .map(([name, share]) => `${t(name)} ${share.toFixed(3)}`)
    .join(", ")}`;
