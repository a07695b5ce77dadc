// The questions that were asked in this browser.
import { keep, kept } from "./kept.js";

const REMEMBERED = 12; // questions

/** Return the questions that were asked in this browser, the newest first. */
export function questions() {
  try {
    const found = JSON.parse(kept("questions") || "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

/** Forget the questions. */
export const forgetQuestions = () => keep("questions", "[]");

/** Remember a question; "" is none. */
export function rememberQuestion(q) {
  if (q) keep("questions", JSON.stringify([q, ...questions().filter((one) => one !== q)].slice(0, REMEMBERED)));
}
