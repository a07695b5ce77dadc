// The parts of the packages that the page uses.
export { h, render, Component, createRef } from "preact";
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { hierarchy } from "d3-hierarchy";
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
