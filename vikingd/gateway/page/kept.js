// Choices that the browser keeps, if it may: one that forbids storage forgets them.

/** Return a kept choice; null: there is none. */
export function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Keep a choice. */
export function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // The choice holds until the page is closed.
  }
}
