// Runs before the page is drawn, so that the other theme does not flash. Nothing else is stored in the browser.
document.documentElement.classList.add("js");
try {
  const theme = localStorage.getItem("clew-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* private window */ }
