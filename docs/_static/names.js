// Names for screen readers, and a stop for the Tab key, which elements of the theme and of the gallery lack.
document.addEventListener("DOMContentLoaded", () => {
  for (const toggle of document.querySelectorAll("li > details > summary")) {
    toggle.setAttribute("aria-label", `Pages of ${toggle.closest("li").querySelector("a")?.textContent.trim()}`);
  }
  for (const button of document.querySelectorAll(".search-button-field")) {
    button.setAttribute("aria-label", button.textContent.trim().replace(/\s+/g, " ")); // with the visible keys
  }
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a")) {
    link.setAttribute("aria-label", link.textContent.trim());
  }
  for (const output of document.querySelectorAll(".output_subarea")) {
    output.tabIndex = 0; // it scrolls sideways on a narrow screen
  }
});
