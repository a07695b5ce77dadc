// Escape closes one thing: the one that was opened last.
import { useEffect, useRef } from "./vendor/vendor.js";

const opened = [];

/**
 * Let Escape close a part of the page.
 * @param {boolean} isOpen
 * @param {() => void} close
 */
export function useEscape(isOpen, close) {
  const own = useRef({}).current;
  own.close = close;
  // While it renders, and not in an effect, so that two keys in quick succession close two things.
  if (Boolean(isOpen) !== opened.includes(own)) isOpen ? opened.push(own) : remove(own);
  useEffect(() => () => remove(own), []);
}

function remove(own) {
  const at = opened.indexOf(own);
  if (at >= 0) opened.splice(at, 1);
}

/** Close what was opened last, if something is open. */
export const closeLast = () => opened.at(-1)?.close();
