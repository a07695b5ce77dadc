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
  useEffect(() => {
    if (!isOpen) return undefined;
    opened.push(own);
    return () => opened.splice(opened.indexOf(own), 1);
  }, [isOpen]);
}

/** Close what was opened last, if something is open. */
export const closeLast = () => opened.at(-1)?.close();
