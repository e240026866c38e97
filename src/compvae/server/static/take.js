// What a visitor takes along: files, and text for the clipboard.

import { element } from "./parts.js";

export function save(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// A canvas as a PNG, on the colour of the page.
export function saveCanvas(from, name) {
  const flat = element("canvas", { width: from.width, height: from.height });
  const context = flat.getContext("2d");
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--panel");
  context.fillRect(0, 0, flat.width, flat.height);
  context.drawImage(from, 0, 0);
  flat.toBlob((blob) => save(blob, name));
}

// Puts text on the clipboard; where that is not allowed, source is selected so that Ctrl-C does it.
export async function copy(text, button, source = null) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = source ? "Selected: press Ctrl-C" : "Copy the address above";
    if (source) getSelection().selectAllChildren(source);
  }
  setTimeout(() => (button.textContent = before), 1500);
}
